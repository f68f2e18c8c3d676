"""Lists and tables of edges of people's daily work: read as they are meant, or said, or refused."""

import gzip

import pytest
from input_case import Case, parquet, run_case

from plancc.graph.claims import are_two_things

RING = "0 1\n1 2\n2 3\n3 4\n4 5\n5 0\n0 2\n"
RING_ENTRIES = dict.fromkeys([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 2)], 1.0)
BACK = "1 0\n2 1\n3 2\n4 3\n5 4\n0 5\n2 0\n"
BACK_ENTRIES = {(v, u): w for (u, v), w in RING_ENTRIES.items()}
KONECT = "1 1\n1 2\n2 3\n3 4\n3 1\n2 2\n"
SIDES = {(0, 3), (0, 4), (1, 5), (2, 6), (2, 3), (1, 4)}
"""Those of `KONECT`: three rows, then four columns."""
TYPES = """[types]
user = 2
item = 2
[[relations]]
source = "item"
name = "seen"
destination = "user"
file = "e.csv"
"""
LFS = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f3"
    "2b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
TRIANGLE = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0}
BELOW = "#a,b\nsource,target\n#py,ann\nbob,c\n"
TEMPORAL = "source,target,timestamp\n0,1,1217567877\n0,1,1217567880\n1,2,1217567878\n"
TIMES = "weights of the edges: column 'timestamp', 1,217,567,877 to 1,217,567,880, repeated"
RATED = "source,target,rating,timestamp\n0,1,4,9\n1,2,5,8\n"


def hive(path):
    for k in range(2):
        (path / f"year={2000 + k}").mkdir(parents=True)
        parquet(src=[k], dst=[k + 1])(path / f"year={2000 + k}" / "a.parquet")


def ones(*pairs):
    return dict.fromkeys(pairs, 1.0)


def names_two(first, second, file="g.csv"):
    """Columns of two things that are counted from 1 each."""
    return Case(
        f"F1: {first} and {second} in {file}",
        {file: f"{first},{second}\n1,1\n2,1\n1,2\n"}
        if file.endswith(("csv", "txt"))
        else {file: parquet(**{first: [1, 2, 1], second: [1, 1, 2]})},
        f"compile {file} PLAIN",
        says=(f"'{first}'|'{second}' share one id space: 2 ids occur in both|types.toml",),
        entries=ones((1, 1), (2, 1), (1, 2)),
    )


OF_ONE = [
    *("author1 author2", "user_a user_b", "node_1 node_2", "person_id friend_id", "id parent_id"),
    *("FromNodeId ToNodeId", "citing cited", "follower followee", "caller callee", "id_1 id_2"),
    *("protein1 protein2", "home_team away_team", "head tail", "i j", "numeric_id_1 numeric_id_2"),
    *("src_ip dst_ip", "user follower", "x y", "u v", "bus0 bus1"),
]
"""Names of columns of the two ends of one thing."""
CASES = [
    # F1: two sides
    Case("F1: KONECT bip", {"g.txt": f"% bip unweighted\n% 6 3 4\n{KONECT}"},
         says=("7 vertices, 6 nonzeros",), silent=("warning",), entries=ones(*SIDES)),
    Case("F1: KONECT bip without sizes", {"g.tsv": f"% bip unweighted\n{KONECT}"},
         silent=("warning",), entries=ones(*SIDES)),
    Case("F1: KONECT bip with more than occur", {"g.txt": f"% bip positive\n% 6 4 5\n{KONECT}"},
         says=("1 of 4 vertices of type 'rows'", "1 of 5 vertices of type 'columns'")),
    Case("F1: KONECT bip, gzipped and cut off",
         {"g.txt.gz": gzip.compress(f"% bip unweighted\n% 9 3 4\n{KONECT}".encode())},
         says=("comments say 9 edges, but 6 are read|be cut off",)),
    Case("F1: KONECT bip, turned", {"g.txt": f"% bip unweighted\n% 6 3 4\n{KONECT}"}, "--transpose",
         entries=ones(*((v - 3, u + 4) for u, v in SIDES))),
    Case("F1: KONECT bip by number", {"g.txt": f"% bip unweighted\n% 6 3 4\n{KONECT}"},
         "--num-vertices 5", says=("u and v have separate ids, but --keep-ids",)),
    Case("F1: KONECT bip symmetrized", {"g.txt": f"% bip unweighted\n% 6 3 4\n{KONECT}"},
         "--symmetrize", refused="3 rows and 4 columns|read it without --symmetrize"),
    Case("F1: KONECT bip with an id 0", {"g.txt": "% bip unweighted\n0 1\n1 1\n"},
         refused="'bip'|ids count from 1 on both sides|'0'"),
    names_two("user_id", "item_id"),
    names_two("userId", "movieId"),
    names_two("author", "paper", "g.txt"),
    names_two("customer", "product", "g.parquet"),
    names_two("UserID", "ISBN"),
    names_two("uid", "iid"),
    Case("F1: ratings", {"g.csv": "userId,movieId,rating\n1,1,4.0\n1,3,4.5\n2,1,5\n3,2,1\n"},
         says=("share one id space: 3 ids",), entries={(1, 1): 4.0, (1, 3): 4.5, (2, 1): 5.0,
         (3, 2): 1.0}),
    Case("F1: two things without a common id", {"g.csv": "user,item\n1,10\n2,10\n2,11\n"},
         silent=("id space",), entries=ones((1, 10), (2, 10), (2, 11))),
    *(Case(f"F1: {pair} are of one", {"g.csv": f"{','.join(pair.split())}\n1,2\n2,3\n1,3\n"},
         silent=("id space", "warning"), entries=ones((1, 2), (2, 3), (1, 3)))
      for pair in OF_ONE[::5]),
    Case("F1: two things by a comment", {"g.txt": "# UserId\tItemId\n1\t1\n2\t1\n"},
         says=("columns 'UserId' and 'ItemId' share one id space",)),
    Case("F1: a comment that names nothing", {"g.txt": "# my graph\n# see paper\n1 1\n2 1\n"},
         silent=("warning",)),
    # F7: sizes
    Case("F7: vertices and lines", {"g.txt": f"6 7\n{RING}"},
         says=("line 1: '6 7' is read as the counts of vertices and edges|--columns 1,2",),
         entries=RING_ENTRIES),
    Case("F7: vertices and lines, as an edge", {"g.txt": f"6 7\n{RING}"}, "--columns 1,2",
         silent=("is read as the counts",), entries=RING_ENTRIES | {(6, 7): 1.0}),
    Case("F7: more vertices than occur", {"g.txt": f"9 7\n{RING}"}, entries=RING_ENTRIES,
         says=("'9 7' is read", "first line says 9 vertices, but 6 are read: --num-vertices 9")),
    Case("F7: vertices, vertices and lines",
         {"g.txt": "6 6 7\n1 2 0.5\n2 3 0.5\n3 4 1\n4 5 1\n5 6 1\n6 1 1\n1 3 1\n"},
         says=("'6 6 7' is read as the counts of vertices and edges",),
         entries={(1, 2): 0.5, (2, 3): 0.5, (3, 4): 1, (4, 5): 1, (5, 6): 1, (6, 1): 1, (1, 3): 1}),
    Case("F7: a tree with its size", {"g.txt": "5 4\n0 1\n1 2\n2 3\n3 4\n"},
         says=("'5 4' is read as the counts of vertices and edges|--columns 1,2",),
         entries=ones((0, 1), (1, 2), (2, 3), (3, 4))),
    Case("F7: a path from its end", {"g.txt": "5 4\n4 3\n3 2\n2 1\n1 0\n"},
         says=("'5 4' is read as an edge|put # before it",),
         entries=ones((5, 4), (4, 3), (3, 2), (2, 1), (1, 0))),
    Case("F7: as many edges as vertices", {"g.txt": "4 4\n1 2\n2 3\n3 1\n3 4\n"},
         says=("'4 4' is read as the counts of vertices and edges",),
         entries=ones((1, 2), (2, 3), (3, 1), (3, 4))),
    Case("F7: sizes of a list that is cut off", {"g.txt": "4 9\n1 2\n2 3\n3 1\n3 4\n"},
         says=("'4 9' is read as an edge|put # before it",)),
    Case("F7: sizes before weights", {"g.txt": "3 3\n1 2 0.5\n2 3 0.25\n3 1 2\n"},
         refused="line 2: 2 columns are expected, as in the first line (put # before a line of "
         "sizes), not '1 2 0.5'"),
    Case("F7: ids with gaps", {"g.txt": "3 40\n2 5\n5 7\n7 2\n"}, silent=("as an edge",)),
    Case("F7: a lone size", {"g.txt": "4\n1 2\n2 3\n"},
         refused="line 1|# before a line that is not an edge|not '4'"),
    # columns of edges
    Case("numbers of edges before their ends", {"g.csv": "0,10,11\n1,11,12\n2,12,10\n"},
         says=("g.csv: column 1 holds line numbers, and columns 2 and 3 have most|--columns 2,3",)),
    Case("a path with weights", {"g.txt": "0 1 1\n1 2 1\n2 3 1\n"}, silent=("warning",)),
    Case("times before ends", {"g.txt": "1082040961 1 2\n1082155839 3 4\n"},
         says=("column 1 alone has numbers as large as times|--columns 2,3",)),
    *(Case(f"a column of times, {head}", {"g.csv": f"{head}\n10,1,2\n11,2,3\n"},
         says=("ignored: 'time'",), entries=ones((1, 2), (2, 3)))
      for head in ("time,user,friend", "# time,user,friend")),
    Case("names in a comment", {"g.txt": "# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n"},
         says=("weights of the edges: column 'Sign', all -1|row = FromNodeId",)),
    Case("a table of vertices", {"g.csv": "id,label\n0,1\n1,0\n2,1\n"},
         refused="which columns are the edges?|: 'id', 'label' (--data reads vertex data)"),
    Case("a dense matrix of pandas", {"g.csv": ",a,b,c\na,0,1,0\nb,1,0,1\nc,0,1,0\n"},
         refused="which columns are the edges?|'', 'a', 'b', 'c'"),
    Case("row names of R", {"g.txt": '"from" "to"\n"1" 1 2\n"2" 2 3\n'},
         refused="line 2|row names of R (row.names = FALSE)"),
    Case("two pairs of ends", {"g.csv": "source,target,from,to\n1,2,3,4\n2,3,4,5\n"},
         says=("ignored: 'from', 'to'",), silent=("as weights",), entries=ones((1, 2), (2, 3))),
    *(Case(f"between ends stands {line.split()[1] if ' ' in line else line[1]}",
         {"g.txt": f"{line}\n{line}\n"},
         refused="line 1: columns are separated by blanks, tabs, commas or semicolons, not by '")
      for line in ("1|2", "1|11537|0", "source | target", "1 -> 2", "a -- b")),
    *(Case(f"edges in brackets, {line}", {"g.csv": f"{line}\n{line}\n"},
         refused="line 1: an edge must be two words without brackets, such as")
      for line in ("(1, 2)", "('a', 'b')", "[1, 2]")),
    *(Case(f"no edge list but {kind}", {"g.csv": text}, refused=f"g.csv: begins like {kind}")
      for kind, text in (("an error", "404: Not Found\n"), ("an error", "Access denied, log in\n"),
                         ("an error", "<?xml version='1.0'?>\n<Error><Code>x</Code></Error>"),
                         ("JSON", '{"nodes": [], "links": []}\n'), ("JSON", '[{"source": 1}]'),
                         ("GEXF", "<?xml version='1.0'?>\n<gexf></gexf>"))),
    Case("a name as that of an error", {"g.csv": "Forbidden City,Beijing\nBeijing,Xian\n"},
         silent=("warning",), says=("3 vertices, 2 nonzeros",)),
    Case("weights of words", {"g.csv": "src,dst,weight\n1,2,True\n2,3,False\n"},
         refused="line 2: the weight is not a number (--pattern reads without weights): 'True'"),
    Case("weights of years", {"g.csv": "src,dst,year\n1,2,2001\n2,3,2002\n"},
         says=("column 'year' is read as weights|the name says year|--pattern",)),
    Case("ids from 1 with gaps", {"g.txt": "1 2\n2 4\n"},
         says=("--keep-ids or --num-vertices 5 makes vertices of all ids, even of 0",)),
    Case("a null id of Parquet", {"g.parquet": parquet(src=[1, 2, None], dst=[2, 3, 1])},
         refused="column 'src': 1 ids are null, the first in row 2"),
    Case("folders that say something", {"g.parquet": hive},
         says=("g.parquet: ignored: 'year', as folder names give no columns",),
         entries=ones((0, 1), (1, 2))),
    Case("F7: an edge that is none of sizes", {"g.txt": "6 3\n0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n"},
         silent=("warning",)),
    Case("A8: vertices and pairs", {"g.txt": f"6 7\n{RING}{BACK}"},
         says=("line 1: '6 7' is read as the counts of vertices and edges|--columns 1,2",),
         silent=("14 are read",), entries=RING_ENTRIES | BACK_ENTRIES),
    Case("A8: vertices and pairs, among the ids", {"g.txt": "5 4\n1 2\n2 1\n2 3\n3 2\n3 4\n4 3\n"
         "4 5\n5 4\n"}, says=("'5 4' is read as the counts of vertices and edges",),
         silent=("are read",), entries=ones((1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5),
         (5, 4))),
    Case("A8: vertices, vertices and pairs", {"g.txt": "3 3 2\n1 2 0.5\n2 1 0.5\n2 3 1\n3 2 1\n"},
         says=("'3 3 2' is read as the counts",), entries={(1, 2): 0.5, (2, 1): 0.5, (2, 3): 1,
         (3, 2): 1}),
    *(Case(f"A8: the number of sparse ids, {lines}",
         {"g.txt": f"{lines}\n10 20\n20 10\n20 30\n30 20\n"},
         says=(f"'{lines}' is read as the counts of vertices and edges",), silent=("are read",),
         entries=ones((10, 20), (20, 10), (20, 30), (30, 20))) for lines in ("3 2", "3 4")),
    Case("A8: half the lines, one way", {"g.txt": "6 3\n0 1\n1 0\n1 2\n2 1\n3 4\n5 3\n"},
         silent=("warning: g.txt, line 1",)),
    *(Case(f"A7: names with {sign}", {"g.txt": f"ann bob\n{sign}py java\n{sign} a remark\n{sign}\n"
         f"{sign}c bob\n"},
         says=(f"2 lines that begin with {sign} are read as comments, the first '{sign}py",
         "2 vertices, 1 nonzeros"))
      for sign in "#%"),
    Case("A7: names with # below names of columns", {"g.csv": BELOW},
         says=("g.csv: 1 lines that begin with # are read as comments, the first '#py,ann'",)),
    Case("A12: triples without names", {"g.txt": "/m/01 born /m/02\n/m/01 died /m/03\n"},
         refused="which columns are the edges? Name them with --columns: '1', '2', '3'"),
    Case("A7: names with # in quotes", {"g.csv": 'a,b\n"#py","java"\nx,"#py"\n'},
         silent=("read as comments",), says=("3 vertices, 2 nonzeros",)),
    Case("A7: remarks among names", {"g.txt": "ann bob\n# see below\n## end\nbob eve\n"},
         silent=("read as comments",)),
    Case("A7: sorted on the disk", {"g.txt": "ann bob\n#py java\nnan bob\n"},
         "convert g.txt -o f --memory 10", refused="g.txt: ids are names|--memory"),
    *(Case(f"B9: {word}", {"g.csv": f"who,whom\nann,{word}\n{word},bob\n{word},ann\n"},
         says=(f"id '{word}' occurs 3 times; it may mark empty cells",))
      for word in ("nan", "NaN", "None", "null", "NA")),
    Case("B9: Nan is somebody", {"g.csv": "who,whom\nann,Nan\nNan,nancy\n"},
         silent=("empty cell",)),
    Case("B9: nan of Parquet", {"g.parquet": parquet(who=["ann", "nan"], whom=["nan", "bob"])},
         says=("id 'nan' occurs 2 times",)),
    Case("F7: sizes before names", {"g.txt": "5 3\nann bob\nbob eve\neve ann\n"},
         refused="line 2|'ann'|put # before a line of sizes"),
    Case("F7: pandas' column numbers", {"g.csv": "0,1\n10,11\n11,12\n"},
         says=("'0,1' is read as an edge|occur nowhere else|pandas",)),
    Case("F7: pairs", {"g.csv": "0,1\n2,3\n4,5\n"}, silent=("pandas", "warning")),
    Case("F7: pandas' index and column numbers", {"g.csv": ",0,1\n0,10,11\n1,11,12\n"},
         silent=("ignored:", "id space"), entries=ones((10, 11), (11, 12))),
    Case("F7: pandas' index and other names", {"g.csv": ",a,b\n0,10,11\n1,11,12\n"},
         silent=("ignored:",), entries=ones((10, 11), (11, 12))),
    # F8: counts and direction
    Case("F8: SNAP, cut off", {"g.txt": "# Nodes: 10 Edges: 12\n# From\tTo\n1\t2\n2\t3\n"},
         says=("comments say 10 vertices and 12 edges, but 3 and 2 are read: the file may be",)),
    Case("F8: SNAP, whole", {"g.txt": "# Directed graph (each unordered pair of nodes is saved "
         "once)\n# Nodes: 3\tEdges: 3\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n2\t0\n"},
         silent=("warning",), entries=TRIANGLE),
    Case("F8: SNAP, isolated vertices", {"g.txt": "# Nodes: 5 Edges: 3\n0 1\n1 2\n2 0\n"},
         says=("say 5 vertices, but 3 are read: --num-vertices 5 keeps vertices without an edge",)),
    Case("F8: counts of pairs, listed both ways",
         {"g.txt": "# Nodes: 3, Edges: 2\n0 1\n1 0\n1 2\n2 1\n"}, silent=("warning",)),
    Case("F8: more lines than said", {"g.txt": "# Edges: 4\n0 1\n1 2\n2 0\n0 2\n0 2\n"},
         says=("comments say 4 edges, but 5 are read",)),
    Case("F8: undirected", {"g.txt": "# Undirected graph: g\n# Nodes: 3 Edges: 3\n0 1\n1 2\n2 0\n"},
         says=("comments say that edges are undirected, but some|--symmetrize adds",),
         entries=TRIANGLE),
    Case("F8: undirected, symmetrized", {"g.txt": "# Undirected graph: g\n0 1\n1 2\n2 0\n"},
         "--symmetrize", silent=("undirected, and",)),
    Case("F8: KONECT sym", {"g.txt": "% sym unweighted\n% 3 3 3\n1 2\n2 3\n3 1\n"},
         says=("edges are undirected|--symmetrize",)),
    Case("F8: KONECT asym, cut off", {"g.txt": "% asym unweighted\n% 5 4 4\n1 2\n2 3\n3 1\n"},
         silent=("undirected,",), says=("say 4 vertices and 5 edges, but 3 and 3 are read|cut off",
         )),
    Case("F8: more vertices than ids from 1", {"g.txt": "% sym unweighted\n% 2 10 10\n1 2\n2 3\n"},
         "--symmetrize",
         says=("say 10 vertices, but 3 are read: subtract 1 from the ids, and --num-vertices 10",)),
    *(Case(f"F8: {words}", {"g.txt": f"# {words}\n0 1\n1 2\n"},
         says=("comments say 9 edges, but 2 are read: the file may be cut off",))
      for words in ("3 nodes, 9 edges", "3 vertices and 9 links.", "|V| = 3 |E| = 9")),
    Case("F8: millions", {"g.txt": "# Nodes: 4.8M Edges: 69M\n0 1\n1 2\n"},
         silent=("comments say",)),
    Case("F8: a remark that is no count", {"g.txt": "# Edges of 12 nodes, see 2019\n0 1\n1 2\n"},
         silent=("warning",)),
    # F12: spellings
    Case("F12: zeros before ids", {"g.csv": "source,target\n007,08\n7,8\n08,007\n"},
         refused="line 2|'007'|without leading zeros or sign"),
    Case("F12: zeros before ids, weights", {"g.txt": "7 8 0.5\n8 07 0.5\n"},
         refused="line 2|'07'|without leading zeros"),
    Case("F12: minus zero", {"g.txt": "1 2\n-0 1\n"}, refused="line 2|'-0'|without leading zeros"),
    Case("F12: a plus", {"g.txt": "1 2\n+2 1\n"}, refused="line 2|'+2'"),
    Case("F12: other digits", {"g.txt": "1 2\n1 \u0663\n"}, refused="line 2"),
    Case("F12: weights may be spelled so", {"g.txt": "0 1 +1\n1 2 007\n2 0 -0.5\n"},
         entries={(0, 1): 1.0, (1, 2): 7.0, (2, 0): -0.5}),
    Case("F12: a plus before whole weights", {"g.csv": "0,1,+1\n1,2,+2.5\n"},
         entries={(0, 1): 1.0, (1, 2): 2.5}),
    # F15: times
    Case("F15: times with fractions", {"g.txt": "1 2 1217567877.5\n2 1 1217567878.25\n"},
         says=("warning|1,217,567,877.5 to|numbers this large are often times",)),
    Case("F15: distances", {"g.csv": "u,v,distance\n0,1,0.5\n1,0,0.5\n"},
         says=("warning|the name says distance, and near vertices would have small weights",)),
    Case("F15: times that are there twice", {"g.csv": TEMPORAL},
         says=(f"; {TIMES} entries summed: 1;",
         "the name says timestamp; --pattern reads the graph without weights")),
    Case("F15: times without weights", {"g.csv": TEMPORAL}, "--pattern", silent=(TIMES,)),
    Case("F15: converted times", {"g.csv": TEMPORAL}, "convert g.csv -o f", says=(TIMES,)),
    Case("columns of a text", {"g.txt": "0 1 1217567877 a\n1 2 1217567878 b\n"}, "--columns 1,2",
         entries=ones((0, 1), (1, 2))),
    # F3a: ignored columns
    Case("F3: four columns", {"g.csv": RATED},
         says=("ignored: 'rating', 'timestamp' (--columns source,target,rating reads 'rating'",),
         entries=ones((0, 1), (1, 2))),
    Case("F3: four columns, chosen", {"g.csv": RATED}, "--columns source,target,rating",
         silent=("ignored:",), entries={(0, 1): 4.0, (1, 2): 5.0}),
    Case("F3: four columns of Parquet", {"g.parquet": parquet(source=[0, 1], target=[1, 2],
         rating=[4, 5], timestamp=[9, 8])},
         says=("ignored: 'rating', 'timestamp' (--columns source,",),
         entries=ones((0, 1), (1, 2))),
    Case("F3: three columns of Parquet", {"g.parquet": parquet(source=[0, 1], target=[1, 2],
         rating=[4, 5])}, silent=("ignored:",), entries={(0, 1): 4.0, (1, 2): 5.0}),
    Case("F3: a column of words", {"g.csv": "source,target,kind\n0,1,a\n1,2,b\n"},
         says=("ignored: 'kind'",), entries=ones((0, 1), (1, 2))),
    Case("F3: a column of words of Parquet", {"g.parquet": parquet(source=[0, 1], target=[1, 2],
         kind=["a", "b"])}, says=("ignored: 'kind'",), entries=ones((0, 1), (1, 2))),
    Case("F3: an id of edges", {"g.csv": "id,source,target\n5,0,1\n6,1,2\n"},
         says=("ignored: 'id'",), entries=ones((0, 1), (1, 2))),
    *(Case(f"A3: {name} before two ids", {"g.csv": f"{name},node1,node2\n0,10,11\n1,11,12\n"},
         says=(f"ignored: '{name}'",), silent=("as weights",), entries=ones((10, 11), (11, 12)))
      for name in ("id", "edge_id", "eid", "index", "Rank", "unnamed")),
    Case("A3: an id of edges of Parquet", {"g.parquet": parquet(id=[0, 1], node1=[10, 11],
         node2=[11, 12])}, says=("ignored: 'id'",), entries=ones((10, 11), (11, 12))),
    Case("A3: an id of edges, names", {"g.csv": "id,who,whom\n0,a,b\n1,b,c\n"},
         says=("ignored: 'id'", "3 vertices, 2 nonzeros")),
    Case("A3: an id of edges, weights", {"g.csv": "id,a,b,weight\n0,1,2,0.5\n1,2,3,2\n"},
         says=("ignored: 'id'",), entries={(1, 2): 0.5, (2, 3): 2.0}),
    Case("A3: an id of edges, last", {"g.csv": "source,target,id\n0,1,7\n1,2,8\n"},
         says=("ignored: 'id'",), entries=ones((0, 1), (1, 2))),
    Case("A3: a parent", {"g.csv": "id,parent,length\n1,0,0.5\n2,0,2\n"}, silent=("ignored:",),
         entries={(1, 0): 0.5, (2, 0): 2.0}),
    *(Case(f"A12: {names} {line}", {"g.csv": f"{names}\n{line}\n"},
         refused="which columns are the edges? Name them with --columns: ")
      for names, line in (("head,relation,tail", "a,likes,b"), ("h,r,t", "1,2,3"),
                          ("subject,predicate,object", "1,2,3"), ("a,kind,b", "x,is,y"))),
    Case("A12: triples of Parquet", {"g.parquet": parquet(head=[0], relation=[1], tail=[2])},
         refused="which columns are the edges?|--columns"),
    Case("A12: triples, chosen", {"g.csv": "head,relation,tail\n0,4,1\n1,5,2\n"},
         "--columns head,tail", entries=ones((0, 1), (1, 2))),
    Case("A12: a relation between usual names", {"g.csv": "source,relation,target\n0,4,1\n1,5,2\n"},
         says=("ignored: 'relation'",), entries=ones((0, 1), (1, 2))),
    Case("F3: Gephi", {"g.csv": "Source,Target,Type,Id,Label,Weight\n0,1,Directed,0,,2.5\n"},
         says=("ignored: 'Type', 'Id', 'Label'",), entries={(0, 1): 2.5}),
    # M2: values of which there is no need
    Case("M2: no numbers as weights", {"g.txt": "0 1 x\n1 2 inf\n2 0 1_0\n"}, "--pattern",
         entries=TRIANGLE),
    Case("M2: no numbers as weights of a table", {"g.csv": "0,1,0.5\n1,2,n/a\n2,0,\n"}, "--pattern",
         entries=TRIANGLE),
    Case("M2: no numbers as weights of Parquet", {"g.parquet": parquet(src=[0, 1, 2], dst=[1, 2, 0],
         weight=["a", "b", "c"])}, "compile g.parquet --pattern PLAIN", entries=TRIANGLE),
    Case("M2: no numbers as weights, sorted on the disk", {"g.txt": "0 1 x\n1 2 inf\n2 0 1_0\n"},
         "convert g.txt -o f --pattern --memory 10", says=("3 vertices, 3 nonzeros",)),
    # M3, M4: messages
    Case("M3: an empty column", {"g.csv": "0,1\n2,\n"}, refused="line 2: column 2 is empty: '2,'"),
    Case("M3: an empty column in the first line", {"g.csv": ",1\n2,3\n"},
         refused="line 1: column 1 is empty: ',1'"),
    Case("M4: quotes", {"g.csv": '"node_1","node_2"\n"0","3"\n"3","1"\n'},
         silent=("warning: g.csv: columns",), entries=ones((0, 3), (3, 1))),
    Case("M4: quotes beside weights", {"g.txt": '"0" "3" "0.5"\n"3" "1" "2"\n'},
         entries={(0, 3): 0.5, (3, 1): 2.0}),
    Case("M4: quotes beside decimal commas", {"g.csv": '"0";"3";"0,5"\n"3";"1";"2"\n'},
         entries={(0, 3): 0.5, (3, 1): 2.0}),
    Case("M4: quotes in chosen columns", {"g.csv": 'x,"a","b"\n"p,q","0","3"\n"r","3","0"\n'},
         "--columns a,b", entries=ones((0, 3), (3, 0))),
    Case("M4: remarks after edges", {"g.txt": "0 1 # first\n1 2\n2 0\t# last\n"}, entries=TRIANGLE),
    Case("M4: DIMACS", {"g.txt": "c x\np sp 4 5\na 1 2 3\n"},
         refused="begins like DIMACS, not like an edge list|grep '^[ae]'|--columns 2,3"),
    Case("M4: DIMACS without its head", {"g.txt": "a 1 2 3\na 2 1 4\n"}, "--columns 2,3,4",
         entries={(1, 2): 3.0, (2, 1): 4.0}),
    *(Case(f"M4: Git LFS in .{kind}", {f"g.{kind}": LFS},
         refused=f"g.{kind}: this is a Git LFS pointer, not the file|git lfs pull")
      for kind in ("txt", "csv", "mtx", "npz", "pt", "parquet", "h5ad", "graph", "gml", "net")),
    *(Case(f"M4: Git LFS as data in .{kind}", {"g.txt": RING, f"x.{kind}": LFS}, f"--data x.{kind}",
         refused="a Git LFS pointer|git lfs pull")
      for kind in ("npy", "npz", "csv", "parquet")),
    Case("M5: the vertex by its id", {"g.txt": "1000 1001 -1\n1001 1002 1\n1002 1000 1\n"},
         "compile g.txt -p 1 -o p.h5", refused="weights of vertex 1000 (with its self loop"),
    # sorted on the disk
    Case("F8: sorted on the disk", {"g.txt": "# Undirected graph\n# Edges: 9\n0 1\n1 2\n2 0\n"},
         "convert g.txt -o f --memory 10", says=("say 9 edges, but 3 are read",
         "edges are undirected|--symmetrize")),
    Case("F7: sorted on the disk", {"g.txt": f"6 7\n{RING}"}, "convert g.txt -o f --memory 10",
         refused="numbers of vertices and edges; put # before it"),
    Case("F1: bip sorted on the disk", {"g.txt": f"% bip unweighted\n{KONECT}"},
         "convert g.txt -o f --memory 10", refused="a bipartite list ('bip')|without --memory"),
    Case("F1: two things sorted on the disk", {"g.csv": "user,item\n1,1\n2,1\n"},
         "convert g.csv -o f --memory 10", says=("'user' and 'item' share one id space",)),
    Case("F1: sides as types", {"t/types.toml": TYPES, "t/e.csv": "user,item\n0,0\n1,0\n0,1\n"},
         silent=("id space", "warning")),
    Case("the direction by a comment", {"g.txt": "# FromNodeId\tToNodeId\n0\t1\n1\t2\n"},
         says=("row = FromNodeId, column = ToNodeId (a row needs its columns; --transpose",)),
    # the direction
    Case("the direction is said", {"g.txt": "0 1\n1 2\n"},
         says=("row i needs row j, --transpose swaps i, j; --symmetrize adds the reverse edges",)),
]  # fmt: skip


def test_names_of_the_ends_of_one_thing():
    assert not [pair for pair in OF_ONE if are_two_things(*pair.split())]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_list_of_edges_is_read_as_it_is_meant(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)
