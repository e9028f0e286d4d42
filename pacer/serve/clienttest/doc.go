// Package clienttest runs clients in Python, JavaScript, Ruby and a shell against package serve, and the examples of docs/serve.md. It has
// tests alone. A client whose runtime the machine does not have is skipped, as the test logs.
package clienttest
