// Package registry reads one repository of a registry that isn't trusted.
//
// It owns the connections of one reading, and over readings the token that the registry gave. Package oci calls it, from
// the goroutine of its Run. The goroutines of net/http end with each reading: no connection outlives it. What it returns
// has the digest that was asked for, except what a tag names. Its errors are a fault.Error or wrap one, so they have no
// secret and no text of a response; all callers of podconfigd may see them.
//
// # Requests
//
// go-containerregistry makes the requests, and the guard is the transport below it, which decides on each one:
//
//   - HTTPS only, except at the configured hosts, if these are on loopback or Config.Insecure is set.
//   - Credentials, and the token that they gave, are sent to the registry and to Config.TokenHost only. A request that
//     another host's redirect led to has none, even at the registry. If the registry wants the credentials to be sent to
//     another host, that is an error that names the host.
//   - No connection is made to a link-local address or to a cloud's metadata server, whatever name resolves to it. To
//     loopback only the configured hosts may lead, and others if the registry itself is on loopback. A proxy resolves
//     names by itself: for requests by a proxy, only addresses in a URL are refused.
//   - A reading has a limited number of requests and bytes, and each response a limited size. The caller's context bounds
//     its time.
//
// go-containerregistry itself refuses redirects to private addresses that are written as such, and a token server at one.
package registry
