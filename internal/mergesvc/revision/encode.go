package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Encoding is the format of an encoded pod, and its Audience. EncodingFor makes one; the zero value is JSON for an
// inspector.
//
// The digests are those of what the Audience sees, so that an inspector can't test guesses of a secret against them.
type Encoding struct {
	format   podconfigv1.PodFormat
	audience redact.Audience
}

// EncodingFor returns the Encoding in a format, JSON if it is unspecified, for an Audience.
func EncodingFor(audience redact.Audience, format podconfigv1.PodFormat) Encoding {
	return Encoding{format, audience}
}

// Format returns the format that EncodingFor was given.
func (e Encoding) Format() podconfigv1.PodFormat { return e.format }

// Audience returns the Audience that EncodingFor was given.
func (e Encoding) Audience() redact.Audience { return e.audience }

// The encodings that are cached: three formats and the reference of a removed pod, each whole and redacted.
const (
	slotJSON = iota
	slotProtobuf
	slotReference
	slotRemoved
	slots
)

// encoded caches a pod's encodings. Each is made when it is first needed.
type encoded struct {
	slots [2 * slots]struct {
		once sync.Once
		data []byte
		err  error
	}
	redactOnce sync.Once
	redacted   seen
	redactErr  error
	sizeOnce   sync.Once
	size       int
}

// Size returns the size of the object in protobuf, in bytes.
func (p *Pod) Size() int {
	p.sizeOnce.Do(func() { p.size = p.Object.Size() })
	return p.size
}

// Encode returns the bytes of a podconfig.v1.Pod. They are shared: callers must not change them.
func (p *Pod) Encode(e Encoding) ([]byte, error) {
	slot, err := slotOf(e.format)
	if err != nil {
		return nil, err
	}
	return p.encodeSlot(slot, e.audience)
}

// EncodeRemoved returns the pod as a REMOVE names it: reference and digests, whatever the format. The bytes are
// shared.
func (p *Pod) EncodeRemoved(e Encoding) ([]byte, error) {
	return p.encodeSlot(slotRemoved, e.audience)
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

func (p *Pod) encodeSlot(slot int, audience redact.Audience) ([]byte, error) {
	at := slot
	if !audience.Whole() {
		at += slots
	}
	s := &p.slots[at]
	s.once.Do(func() {
		// The error stays if encoding panics: missing bytes must not count as an empty pod.
		s.err = fmt.Errorf("encode pod %s: it couldn't be encoded before", p)
		m, err := p.message(slot, audience)
		if err == nil {
			s.data, err = proto.Marshal(m)
		}
		if s.err = err; err != nil {
			s.err = fmt.Errorf("encode pod %s: %w", p, err)
		}
	})
	return s.data, s.err
}

// Message returns the pod as a protobuf message that the caller owns.
func (p *Pod) Message(e Encoding) (*podconfigv1.Pod, error) {
	slot, err := slotOf(e.format)
	if err != nil {
		return nil, err
	}
	m, err := p.message(slot, e.audience)
	if err != nil {
		return nil, fmt.Errorf("encode pod %s: %w", p, err)
	}
	return m, nil
}

func (p *Pod) message(slot int, audience redact.Audience) (*podconfigv1.Pod, error) {
	s, err := p.seenBy(audience)
	if err != nil {
		return nil, err
	}
	m := &podconfigv1.Pod{
		Ref:          &podconfigv1.PodRef{Uid: string(p.Object.UID), Namespace: p.Object.Namespace, Name: p.Object.Name},
		Source:       p.Source,
		Stale:        p.Stale && slot != slotRemoved,
		SpecDigest:   s.spec,
		StatusDigest: s.status,
	}
	return m, addContent(m, slot, s.pod)
}

// addContent adds the pod to its message. It takes a redact.Pod, so that no pod is sent unless its redaction was
// decided.
func addContent(m *podconfigv1.Pod, slot int, pod redact.Pod) error {
	switch slot {
	case slotJSON:
		content, err := jsonStruct(pod)
		if err != nil {
			return err
		}
		m.Content = &podconfigv1.Pod_Json{Json: content}
	case slotProtobuf:
		data, err := pod.Object().Marshal()
		if err != nil {
			return err
		}
		m.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	}
	return nil
}

func jsonStruct(pod redact.Pod) (*structpb.Struct, error) {
	obj := *pod.Object()
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

// seen is a pod as an Audience sees it, with its digests.
type seen struct {
	pod          redact.Pod
	spec, status string
}

// Digests returns the digests of the pod as the Audience sees it: the only ones that the Audience may compare with.
// They are empty for an inspector if the pod can't be redacted, or if only its reference is known, as in a tombstone.
func (p *Pod) Digests(audience redact.Audience) (spec, status string) {
	s, err := p.seenBy(audience)
	if err != nil {
		return "", ""
	}
	return s.spec, s.status
}

func (p *Pod) seenBy(audience redact.Audience) (seen, error) {
	if audience.Whole() {
		return seen{audience.Pod(p.Object), p.SpecDigest, p.StatusDigest}, nil
	}
	p.redactOnce.Do(func() {
		// The error stays if redacting panics.
		p.redactErr = errors.New("the pod couldn't be redacted before")
		p.redacted, p.redactErr = redacted(p.Object, audience)
	})
	return p.redacted, p.redactErr
}

func redacted(object *v1.Pod, audience redact.Audience) (seen, error) {
	s := seen{pod: audience.Pod(object)}
	if isReference(object) {
		return s, nil
	}
	var err error
	if s.spec, err = manifest.SpecDigest(s.pod.Object()); err != nil {
		return seen{}, err
	}
	s.status, err = manifest.StatusDigest(s.pod.Object())
	return s, err
}

// isReference reports whether only the pod's reference and node are known.
func isReference(p *v1.Pod) bool {
	return equality.Semantic.DeepEqual(p, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: p.UID, Namespace: p.Namespace, Name: p.Name}, Spec: v1.PodSpec{NodeName: p.Spec.NodeName},
	})
}
