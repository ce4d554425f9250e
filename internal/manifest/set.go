package manifest

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
)

// Set is everything that one source has at one reading: always the full set, never a difference. If Err is nil and
// there are no origins, the source was read and has no pods. A Set and all that it points to is immutable once it is
// sent.
type Set struct {
	// Source is the source's name: "file", "http", "oci", "api" or "KIND:NAME".
	Source string
	// ReadTime is when the reading ended.
	ReadTime time.Time
	// Heard is when the place that the pods come from last answered, by the clock of this machine: a relay's is that
	// of the least recently heard source of its upstream. Zero: ReadTime, unless there is an Err.
	Heard time.Time
	// Err is why the whole source can't be read now. Origins is then empty and has no meaning: the pods stay as they
	// are.
	Err error
	// Origins are the places that the source read, in order of precedence: of two origins with one pod the first
	// keeps it. An origin that is missing here is gone, and its pods with it. An unchanged origin is the same pointer
	// as in the previous Set.
	Origins []*Origin
	// Digest is that of the artifact that the Origins are from, "sha256:" and hex digits. Empty: they are from no artifact.
	// It is ignored if there is an Err.
	Digest string
	// Progress is how far the Origins follow a cluster. Nil: the source has no order, or it isn't known. It is ignored if
	// there is an Err.
	Progress *Progress
}

// Progress is how far a source's pods follow the clusters that they are from. All positions have the source's name.
type Progress struct {
	// Changed are the positions of the last change of the pods: a removal counts.
	Changed position.Positions
	// Current are the positions up to which the pods are known to be current: those of Changed, or later.
	Current position.Positions
	// Confirmed is the number of the last confirmation that the source has completed; see sources.Confirmer. The set has
	// all that it includes.
	Confirmed uint64
	// ConfirmedAt is the resource version of that confirmation, the lowest one if it took several readings: what was
	// confirmed is as then, or later. Empty: there was none.
	ConfirmedAt string
}

// Origin is one place within a source: a file, a URL's item, an API object.
type Origin struct {
	// Name is the file's path, the item's URL, or the API object's namespace/name.
	Name string
	// Pods are the usable pods, in the order in which they are written.
	Pods []*Pod
	// Objects are the objects beside the pods, for the pods of the same source.
	Objects []*Object
	// Held is set if the origin exists but some or all of it can't be used now. Its Pods are added and updated, and
	// its previous pods are kept.
	Held bool
	// Only, if set, is the UID of the one pod that the origin can have: its source has it even if the pod can't be
	// used. Of the previous pods of a held origin, only the one with this UID is kept.
	Only types.UID
	// Deletion is set if Only is set, its pod can't be used, and the pod is being deleted: the kept version is then
	// being deleted, too.
	Deletion *Deletion
	// ObjectsUnknown is set if Held is set and the unusable part may define objects: it is, or may be, one of them or a
	// list. If it isn't set, Objects are all that the origin defines.
	ObjectsUnknown bool
	// Unready keeps the source from becoming ready as long as it has this origin, whatever is known of its previous
	// pods: the origin stands for pods whose names aren't known yet.
	Unready bool
	// Findings are the reasons for Held, and warnings.
	Findings []Finding
}

// Pod is one pod, ready to be merged: defaulted, validated, with UID and digests.
type Pod struct {
	*v1.Pod
	// Document is the index of its YAML document, counted from 1, and Line the line at which that begins. Zero: it doesn't
	// come from a manifest.
	Document, Line int
	// SpecDigest and StatusDigest are as podconfig.v1.Pod defines them.
	SpecDigest, StatusDigest string
}

// Deletion is the deletion in the metadata of a pod.
type Deletion struct {
	Timestamp metav1.Time
	// GracePeriodSeconds may be nil.
	GracePeriodSeconds *int64
}

// Of returns a copy of p with the deletion.
func (d *Deletion) Of(p *Pod) *Pod {
	object := *p.Pod
	object.DeletionTimestamp, object.DeletionGracePeriodSeconds = &d.Timestamp, d.GracePeriodSeconds
	spec, err := SpecDigest(&object)
	if err != nil {
		return p // It was digested before, so this doesn't happen.
	}
	out := *p
	out.Pod, out.SpecDigest = &object, spec
	return &out
}

// Object is an object of one kind: one of the pointers is set, the others are nil. It is immutable once it is sent.
type Object struct {
	ConfigMap *v1.ConfigMap
	Secret    *v1.Secret
	Claim     *v1.PersistentVolumeClaim
	Volume    *v1.PersistentVolume
	Driver    *storagev1.CSIDriver
	// Digest is podconfig.v1.Object.digest.
	Digest string
	// Document is the index of its YAML document, counted from 1; zero if it doesn't come from a manifest.
	Document int
}

// Severity is the effect of a Finding on the pod.
type Severity int

// The severities, as podconfig.v1.FindingSeverity.
const (
	Warning Severity = iota + 1
	Error
	Conflict
	Ignored
)

// Finding is a problem with a manifest.
type Finding struct {
	Severity Severity
	// Document counts from 1; zero means the origin as a whole.
	Document int
	// Field is the path of the field, or empty.
	Field string
	// Message is one line, without origin and field.
	Message string
	// Unquoted is Message without quotes of the manifest. Empty: Message has none.
	Unquoted string
}

// Redacted returns the finding for callers that may not see the content of a manifest: without text of it, any of
// which may be a secret in a wrong place. Of the path it has the part that v1.Pod defines.
func (f Finding) Redacted() Finding {
	if f.Unquoted != "" {
		f.Message, f.Unquoted = f.Unquoted, ""
	}
	if known := knownPath(f.Field); known != f.Field {
		f = f.below(known)
	}
	return f
}

// below returns the finding for a field that encloses its own.
func (f Finding) below(field string) Finding {
	const member = "one of its members: "
	if f.Field = field; !strings.HasPrefix(f.Message, member) {
		f.Message = member + f.Message
	}
	return f
}
