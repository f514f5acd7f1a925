"""collapsewatch inside the trainers that people already have; each module names the library it is for."""
