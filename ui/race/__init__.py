"""A race on the page: what a visitor asks for, its runs, their messages, and what is kept from race to race."""
