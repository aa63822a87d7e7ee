|news x
|news y
|news z
