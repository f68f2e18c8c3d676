"""Studies, models and pages beside the main job: commands that the registry finds."""
