// Package errorbody bounds the bodies of a server's errors.
//
// client-go reads such a body to its end, whatever its size, and its text reaches logs and the reasons that podctl shows. Both
// daemons' clients of the API server use the package. It runs no goroutine.
package errorbody
