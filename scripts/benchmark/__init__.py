"""What scripts/bench is made of. Needs nothing but Python; diffusers_loop.py alone runs in another environment."""
