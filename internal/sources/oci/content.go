package oci

import (
	"crypto/sha256"
	"fmt"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/oci/archive"
)

// notRead is the finding of a file that isn't a manifest.
const notRead = "not read: manifests end in .yaml, .yml or .json"

// content is what the accepted artifact has. It is immutable.
type content struct {
	// base is the artifact's name, with which the names of origins begin.
	base, node string
	strict     bool

	origins []*manifest.Origin
	// sums are the digests of the files from which the origins were made, by their names.
	sums map[string][sha256.Size]byte
}

// take returns the content of another artifact. What is equal stays the same pointer. problem is a finding on the
// artifact as a whole; empty: there is none.
func (c *content) take(of *archive.Content, problem string) *content {
	former := map[string]*manifest.Origin{}
	for _, o := range c.origins {
		former[o.Name] = o
	}
	next := &content{base: c.base, node: c.node, strict: c.strict, sums: map[string][sha256.Size]byte{}}
	for _, f := range of.Files {
		name, sum := c.base+"#"+f.Name, sha256.Sum256(f.Data)
		o := former[name]
		if known, ok := c.sums[name]; !ok || known != sum {
			o = manifest.Parse(f.Data, manifest.Options{Origin: name, OriginKind: manifest.FileKind, Node: c.node, Strict: c.strict})
		}
		next.sums[name] = sum
		next.origins = append(next.origins, o)
	}
	note := func(name string, severity manifest.Severity, message string) {
		o := former[name]
		if o == nil || len(o.Findings) != 1 || o.Findings[0].Message != message {
			o = &manifest.Origin{Name: name, Findings: []manifest.Finding{{Severity: severity, Message: message}}}
		}
		next.origins = append(next.origins, o)
	}
	for _, name := range of.Ignored {
		note(c.base+"#"+name, manifest.Ignored, notRead)
	}
	if of.More > 0 {
		note(c.base+"#", manifest.Ignored, fmt.Sprintf("%d more files are not read", of.More))
	}
	if problem != "" {
		note(c.base, manifest.Warning, problem)
	}
	return next
}
