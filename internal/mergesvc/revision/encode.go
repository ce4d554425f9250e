package revision

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Encoding is how a pod is put into bytes. The zero value: whole, as JSON.
type Encoding struct {
	// Format is JSON if unspecified.
	Format podconfigv1.PodFormat
	// Redacted leaves out what only consumers may see. The digests are then those of what is left, so that nobody can try
	// guesses of a secret against them.
	Redacted bool
}

// The encodings that are kept: three formats and the reference of a removed pod, each whole and redacted.
const (
	slotJSON = iota
	slotProtobuf
	slotReference
	slotRemoved
	slots
)

// encoded holds a pod's encodings, each made when it is first asked for.
type encoded struct {
	slots [2 * slots]struct {
		once sync.Once
		data []byte
		err  error
	}
	redactOnce sync.Once
	redacted   *Pod
	redactErr  error
	sizeOnce   sync.Once
	size       int
}

// Size is how many bytes the object takes in protobuf.
func (p *Pod) Size() int {
	p.sizeOnce.Do(func() { p.size = p.Object.Size() })
	return p.size
}

// Encode is the pod as the bytes of a podconfig.v1.Pod. They are shared: callers must not change them.
func (p *Pod) Encode(e Encoding) ([]byte, error) {
	slot, err := slotOf(e.Format)
	if err != nil {
		return nil, err
	}
	return p.encodeSlot(slot, e.Redacted)
}

// EncodeRemoved is the pod as a REMOVE names it: reference and digests, whatever the format. The bytes are shared.
func (p *Pod) EncodeRemoved(redacted bool) ([]byte, error) {
	return p.encodeSlot(slotRemoved, redacted)
}

func slotOf(format podconfigv1.PodFormat) (int, error) {
	switch format {
	case podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON:
		return slotJSON, nil
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		return slotProtobuf, nil
	case podconfigv1.PodFormat_POD_FORMAT_REFERENCE:
		return slotReference, nil
	default:
		return 0, fmt.Errorf("pod format %d isn't known", format)
	}
}

func (p *Pod) encodeSlot(slot int, redacted bool) ([]byte, error) {
	at := slot
	if redacted {
		at += slots
	}
	s := &p.slots[at]
	s.once.Do(func() {
		// It stays so if encoding panics: nobody must take what isn't there for an empty pod.
		s.err = fmt.Errorf("encode pod %s: it couldn't be encoded before", p)
		m, err := p.message(slot, redacted)
		if err == nil {
			s.data, err = proto.Marshal(m)
		}
		if s.err = err; err != nil {
			s.err = fmt.Errorf("encode pod %s: %w", p, err)
		}
	})
	return s.data, s.err
}

// Message is the pod as a protobuf message of the caller's own.
func (p *Pod) Message(e Encoding) (*podconfigv1.Pod, error) {
	slot, err := slotOf(e.Format)
	if err != nil {
		return nil, err
	}
	m, err := p.message(slot, e.Redacted)
	if err != nil {
		return nil, fmt.Errorf("encode pod %s: %w", p, err)
	}
	return m, nil
}

func (p *Pod) message(slot int, redacted bool) (*podconfigv1.Pod, error) {
	if redacted {
		r, err := p.Redacted()
		if err != nil {
			return nil, err
		}
		p = r
	}
	m := &podconfigv1.Pod{
		Ref:          &podconfigv1.PodRef{Uid: string(p.Object.UID), Namespace: p.Object.Namespace, Name: p.Object.Name},
		Source:       p.Source,
		Stale:        p.Stale && slot != slotRemoved,
		SpecDigest:   p.SpecDigest,
		StatusDigest: p.StatusDigest,
	}
	switch slot {
	case slotJSON:
		content, err := jsonStruct(p.Object)
		if err != nil {
			return nil, err
		}
		m.Content = &podconfigv1.Pod_Json{Json: content}
	case slotProtobuf:
		data, err := p.Object.Marshal()
		if err != nil {
			return nil, err
		}
		m.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	}
	return m, nil
}

func jsonStruct(pod *v1.Pod) (*structpb.Struct, error) {
	obj := *pod
	obj.APIVersion, obj.Kind = "v1", "Pod"
	data, err := json.Marshal(&obj)
	if err != nil {
		return nil, err
	}
	content := &structpb.Struct{}
	if err := content.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return content, nil
}

// Redacted is the pod as inspectors see it, with the digests of that. A pod that is known by its reference only, as those of
// tombstones are, has no digests then: there is nothing left to take them of.
func (p *Pod) Redacted() (*Pod, error) {
	p.redactOnce.Do(func() {
		r := &Pod{
			Source: p.Source, Origin: p.Origin, Stale: p.Stale,
			Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
		}
		if len(p.Object.Spec.Containers) == 0 {
			r.Object, p.redacted = p.Object, r
			return
		}
		r.Object = redact.Pod(p.Object)
		if r.SpecDigest, p.redactErr = manifest.SpecDigest(r.Object); p.redactErr != nil {
			return
		}
		r.StatusDigest, p.redactErr = manifest.StatusDigest(r.Object)
		p.redacted = r
	})
	return p.redacted, p.redactErr
}
