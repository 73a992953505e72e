"""ASGI layers in front of Gradio's routes: checks of requests, connections, files and logs."""
