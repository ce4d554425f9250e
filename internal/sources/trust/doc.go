// Package trust makes the TLS configuration of a source from the files that it names: the CAs of the server, and a
// client certificate.
//
// It owns what was last good of these files. Packages http and oci call it before each request, from the goroutine of
// their Run. It runs no goroutine, and connects nowhere.
package trust
