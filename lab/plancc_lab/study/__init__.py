"""Studies, which compile several graphs with several models and numbers of parts.

Every plan is one row of figures in the table of a study.
"""
