package manifest

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Set is everything that one source has at one reading: always the full set, never a difference. The zero Err with no
// origins means that the source was read well and has no pods. A Set and all that it points to is immutable once it is
// handed over.
type Set struct {
	// Source is the source's name: "file", "http", "api" or "KIND:NAME".
	Source string
	// ReadTime is when the reading ended.
	ReadTime time.Time
	// Err says why the whole source can't be read now. Origins is then empty and means nothing: the pods stay as they are.
	Err error
	// Origins are the places that the source read, in order of precedence: of two origins with one pod the first keeps it.
	// An origin that is missing here is gone, and its pods with it. An origin that didn't change since the last Set is the
	// same pointer.
	Origins []*Origin
}

// Origin is one place within a source: a file, a URL's item, an API object.
type Origin struct {
	// Name is the file's path, the item's URL, or the API object's namespace/name.
	Name string
	// Pods are the usable pods, in the order in which they are written.
	Pods []*Pod
	// Objects are the ConfigMaps and Secrets that stand beside the pods, for the pods of the same source.
	Objects []*Object
	// Held is set if the origin is there but some of it, or all, can't be used now. Pods are to be added and updated, and
	// those that the origin had before are kept.
	Held bool
	// ObjectsUnknown is set if Held is and what can't be used may define objects: it is, or may be, a ConfigMap, a Secret or a list.
	// If it isn't set, Objects are all that the origin defines.
	ObjectsUnknown bool
	// Unready keeps the source from becoming ready as long as it has this origin, whatever is known of what the source had before:
	// it stands for pods that nobody can name yet.
	Unready bool
	// Findings are the reasons for Held, and warnings.
	Findings []Finding
}

// Pod is one pod, ready to be merged: defaulted, validated, with UID and digests.
type Pod struct {
	*v1.Pod
	// Document is the YAML document that it stands in, counted from 1.
	Document int
	// SpecDigest and StatusDigest are as podconfig.v1.Pod defines them.
	SpecDigest, StatusDigest string
}

// Object is a ConfigMap or a Secret: one of the two is set, the other is nil. It is immutable once it is handed over.
type Object struct {
	ConfigMap *v1.ConfigMap
	Secret    *v1.Secret
	// Digest is podconfig.v1.Object.digest.
	Digest string
	// Document is the YAML document that it stands in, counted from 1; zero if it comes from elsewhere.
	Document int
}

// Severity tells what a Finding meant for the pod.
type Severity int

// The severities, as podconfig.v1.FindingSeverity.
const (
	Warning Severity = iota + 1
	Error
	Conflict
	Ignored
)

// Finding is one thing to know about a manifest.
type Finding struct {
	Severity Severity
	// Document counts from 1; zero means the origin as a whole.
	Document int
	// Field is the path of the field, or empty.
	Field string
	// Message is one line for people, without origin and field.
	Message string
	// Unquoted is Message without what it quotes of the manifest. Empty: it quotes nothing.
	Unquoted string
}

// Redacted is the finding for those who may not see what is in a manifest: it has no text of it, as any may be a secret that was
// put in a wrong place. Of the path it has what v1.Pod knows.
func (f Finding) Redacted() Finding {
	if f.Unquoted != "" {
		f.Message, f.Unquoted = f.Unquoted, ""
	}
	if known := knownPath(f.Field); known != f.Field {
		f = f.below(known)
	}
	return f
}

// below is the finding told of a field that is above its own.
func (f Finding) below(field string) Finding {
	const member = "one of its members: "
	if f.Field = field; !strings.HasPrefix(f.Message, member) {
		f.Message = member + f.Message
	}
	return f
}
