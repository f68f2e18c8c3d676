"""Studies, models and pages that plancc's core does not need, each with a command.

`plancc_cli.group` finds the commands in a registry.
"""
