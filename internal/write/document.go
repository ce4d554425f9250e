package write

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
)

// Source is the name of the source that takes writes.
const Source = "applied"

// The kinds of documents.
const (
	PodKind       = "Pod"
	ConfigMapKind = "ConfigMap"
	SecretKind    = "Secret"
	ClaimKind     = "PersistentVolumeClaim"
)

// kinds are those of the documents that callers may write. PersistentVolumes and CSIDrivers have no namespace, by which a
// caller's rights could be decided.
var kinds = []string{PodKind, ConfigMapKind, SecretKind, ClaimKind}

// IsKind reports whether it is the kind of a document.
func IsKind(kind string) bool { return slices.Contains(kinds, kind) }

// Key names a document. A pod's name is the one that is written, without the node's name.
type Key struct{ Kind, Namespace, Name string }

// String returns the key for messages: "pod default/web".
func (k Key) String() string { return strings.ToLower(k.Kind) + " " + k.Namespace + "/" + k.Name }

// About returns the key: the errors about one document have it.
func (k Key) About() Key { return k }

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// KeyOf returns the key with which a caller names a document: without a kind it is a pod, without a namespace it is in
// "default".
func KeyOf(kind, namespace, name string) Key {
	return Key{cmp.Or(kind, PodKind), cmp.Or(namespace, metav1.NamespaceDefault), name}
}

// Document is one document of the source. It is immutable.
type Document struct {
	Key
	// Set and Caller are whose the document is. A set belongs to one caller.
	Set, Caller string
	// Applied is when it was written last.
	Applied time.Time
	// Text is the document as it was written, and Digest "sha256:" and its hex SHA-256.
	Text   []byte
	Digest string
	// Origin is what the text means on this node.
	Origin *manifest.Origin
}

// UID returns the UID of the pod; empty if there is none.
func (d *Document) UID() types.UID {
	if p := d.Pod(); p != nil {
		return p.UID
	}
	return ""
}

// Pod returns the pod; nil if the document is another kind, or can't be used.
func (d *Document) Pod() *manifest.Pod {
	if d == nil || d.Origin == nil || len(d.Origin.Pods) == 0 {
		return nil
	}
	return d.Origin.Pods[0]
}

// OriginName returns the name of the document's origin, for findings.
func (d *Document) OriginName() string {
	kind := ""
	if d.Kind != PodKind {
		kind = d.Kind + "/"
	}
	return Source + "/" + d.Set + "/" + kind + d.Namespace + "/" + d.Name
}

// DigestOf returns the digest of a text.
func DigestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Options describe the node, and how the documents are read.
type Options struct {
	// Node is the node's name.
	Node string
	// Strict and OwnMetadata are as in manifest.Options.
	Strict, OwnMetadata bool
}

// Parse sets the origin of a document that has all else. The UID of a pod depends on its text and the node only, so a pod
// that moves to another set goes on.
func (d *Document) Parse(opts Options) error {
	o := manifest.Parse(d.Text, manifest.Options{Origin: Source, Node: opts.Node, Strict: opts.Strict, OwnMetadata: opts.OwnMetadata})
	o.Name = d.OriginName()
	for _, p := range o.Pods {
		p.Annotations[manifest.CallerAnnotation], p.Annotations[manifest.SetAnnotation] = d.Caller, d.Set
		spec, err := manifest.SpecDigest(p.Pod)
		if err != nil {
			return err
		}
		p.SpecDigest = spec
	}
	d.Origin = o
	return nil
}

// keyIn returns the key of the only pod or object of an origin; false if it has none, or more: what a role allows is decided by
// the key.
func keyIn(o *manifest.Origin, node string) (Key, bool) {
	switch {
	case len(o.Pods)+len(o.Objects) != 1:
		return Key{}, false
	case len(o.Pods) == 1:
		p := o.Pods[0]
		return Key{PodKind, p.Namespace, WrittenName(p.Name, node)}, true
	}
	key := o.Objects[0].Key()
	return Key{key.Kind.String(), key.Namespace, key.Name}, true
}

// WrittenName returns the name of a pod as its manifest has it: without the node's name at the end.
func WrittenName(name, node string) string {
	return strings.TrimSuffix(name, "-"+strings.ToLower(node))
}
