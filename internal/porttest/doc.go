// Package porttest reserves TCP ports for tests: for servers that stop and restart at one address, for daemons with a
// given address, and for clients whose server must not exist. A port that a test has closed may be taken by another
// process, also as the local port of a connection. The package runs no goroutines.
package porttest
