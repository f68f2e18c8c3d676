"""The former place of `traffic_of_edge_owners`."""

from plancc.cost.owners import traffic_of_edge_owners as traffic_of_edge_owners
