"""`kafkaseg report`: one page about a log directory: what was collected, its pictures, and the page."""
