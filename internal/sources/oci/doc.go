// Package oci polls an OCI artifact at a registry for pods.
//
// It owns one reference: when the registry is asked, which artifact is accepted, and what it last had. It passes its full
// set to the function that it was given; it has no other output than the store of the accepted artifact (package pin).
// podconfigd makes one Source for each artifact that is configured. A Source runs in the goroutine that calls Run; the
// goroutines of the requests end with each reading. Accept may be called concurrently. No error, log line or name has a
// credential, or text of a response.
//
// # Readings
//
// The digest of the reference is requested at once, and then each Interval, plus or minus a tenth. After a failure the
// next reading is earlier, as in package http. Only if the digest isn't that of the accepted artifact, more is requested:
// the manifest, its signatures if there is a key, and then its layers. A reading takes at most Timeout.
//
// # Artifacts that are accepted
//
// All that is read has the digest that was asked for, so it is complete. An artifact is accepted as a whole, or nothing of
// it is used and the set has an Err: the pods stay. It is accepted if
//
//   - a key has signed its digest, for the repository (package signature), if Config.PublicKeyFile is set;
//   - it was created after each artifact that was accepted before, if Config.Monotonic is set. The time is the annotation
//     org.opencontainers.image.created of the manifest or index that has the digest, so the key has signed it. The latest
//     time is stored before the artifact is used. Accept accepts one that is older, once;
//   - its layers are harmless (package archive), and have a manifest. An artifact of the type ArtifactType may have none:
//     it means that there are no pods.
//
// An index stands for the one image in it that is for this platform, or for no certain one. An index of an index is
// refused.
//
// # Manifests
//
// Each manifest is an origin, named oci://REGISTRY/REPOSITORY#PATH: neither the tag nor the digest is in it, so that a pod
// whose manifest is the same in another version of the artifact stays. As in package file, a manifest that can't be used
// holds its own pods only, and one that isn't in the artifact any more is gone.
//
// # Restarts
//
// At its start Run uses the stored artifact before it asks the registry: not for the pods, which podconfigd's own store
// has, but for the ConfigMaps and Secrets, which that doesn't have, and because then the source is ready. The stored
// artifact is used only if it is one for the same reference, its parts have their digests, and a present key has signed it.
// A time of creation that can't be read is an error with Config.Monotonic: what is older isn't known.
package oci
