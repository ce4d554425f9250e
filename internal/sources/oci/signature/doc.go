// Package signature verifies that a key has signed an artifact for a repository, with the standard library.
//
// It is pure: it has the bytes of signatures and keys, and returns why they don't verify. Package oci calls it with what
// a registry or its own disk has, both untrusted. It runs no goroutines.
//
// Two formats of cosign are read. In the older one the registry has a payload of "simple signing" and a signature of
// it (cosign's specs/SIGNATURE_SPEC.md): the payload names the artifact's digest, and the repository. The newer one is
// the bundle of Sigstore, version 0.3 (cosign's specs/BUNDLE_SPEC.md, sigstore/protobuf-specs), with a DSSE envelope or
// with a signature of the manifest itself. The envelope has an in-toto statement about the digest. cosign names no
// repository in it, but signs annotations that its user gives: docker-reference names the repository here. A signature
// of the manifest names none.
//
// Nothing is requested from a transparency log, and none is verified: a signature counts if the key has made it,
// whenever that was. Certificates in a bundle are ignored.
package signature
