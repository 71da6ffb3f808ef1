"""Pools of workers: local, Ray, replay."""
