// Package pin stores the artifact that a source accepted last, so that its pods, ConfigMaps and Secrets are there when the
// registry isn't, and the time when the newest one was created, so that an older one can be refused.
//
// It owns one directory, of mode 0700, beneath podconfigd's --root-dir: pin.json names the artifact and has its signature,
// blobs/ has its parts by their digests, and newest.json has the time. Package oci calls it from the goroutine of its Run.
// It runs no goroutines.
//
// Nothing in the directory is believed: a part that doesn't have its digest isn't returned, and package oci verifies the
// signature again. Files are replaced as a whole, and a rename is durable before it counts: first newest.json, then the
// parts, then pin.json. The parts of the artifact before are removed last. If an artifact can't be stored, pin.json is
// removed: the artifact before is out of date.
package pin
