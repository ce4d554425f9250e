package relay

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// errNonsense: the upstream sends what no podconfigd sends. The revision isn't taken.
var errNonsense = errors.New("it sent an invalid message")

// checkPod refuses a pod whose reference isn't valid. All other errors concern that pod alone.
func checkPod(p *podconfigv1.Pod) error {
	ref := p.GetRef()
	if uid := ref.GetUid(); uid == "" || len(uid) > maxWord ||
		!isWord(p.GetSource()) || !isWord(ref.GetNamespace()) || !isWord(ref.GetName()) {
		return fmt.Errorf("%w: a pod with the reference %.64q, %.64q, %.64q of the source %.64q", errNonsense,
			ref.GetNamespace(), ref.GetName(), ref.GetUid(), p.GetSource())
	}
	return nil
}

// decode returns the pod of a message, if it is the one that the message names.
func decode(p *podconfigv1.Pod) (*v1.Pod, error) {
	encoded, ok := p.GetContent().(*podconfigv1.Pod_Protobuf)
	switch {
	case !ok:
		return nil, errors.New("came in another encoding than protobuf, or in none")
	case p.GetSpecDigest() == "" || p.GetStatusDigest() == "":
		return nil, errors.New("came without its digests")
	}
	if err := checkQuantities(encoded.Protobuf); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := pod.Unmarshal(encoded.Protobuf); err != nil {
		return nil, fmt.Errorf("can't be decoded: %w", err)
	}
	if ref := p.GetRef(); pod.Namespace != ref.GetNamespace() || pod.Name != ref.GetName() || string(pod.UID) != ref.GetUid() {
		return nil, fmt.Errorf("contains another pod: %.64q, %.64q, %.64q", pod.Namespace, pod.Name, string(pod.UID))
	}
	return pod, nil
}

// received returns the origin of a decoded pod, with its relay-path instead of the annotations that the merge sets
// again.
func received(name string, p *podconfigv1.Pod, pod *v1.Pod, path hops) *manifest.Origin {
	sofar := pod.Annotations[manifest.RelayPathAnnotation]
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	delete(pod.Annotations, manifest.SourceAnnotation)
	delete(pod.Annotations, manifest.SeenAnnotation)
	pod.Annotations[manifest.RelayPathAnnotation] = path.extended(p.GetSource(), sofar)
	o := manifest.Received(name, pod)
	for _, got := range o.Pods {
		if got.SpecDigest != p.GetSpecDigest() || got.StatusDigest != p.GetStatusDigest() {
			o.Findings = append(o.Findings, manifest.Finding{
				Severity: manifest.Warning,
				Message:  "its digests at the upstream differ, which has another version: unknown fields are left out",
			})
		}
	}
	return o
}

// notReady returns the origin that stands for a source that isn't ready at the upstream, and keeps this one unready.
// An empty name stands for all, if there are none: of an upstream without sources nothing is certain.
func notReady(source, node string) *manifest.Origin {
	name := source + " (not ready upstream)"
	message := fmt.Sprintf("source %s of the podconfigd on %s isn't ready; what it had before is kept", source, node)
	if source == "" {
		name = "(no sources upstream)"
		message = fmt.Sprintf("the podconfigd on %s has no sources; what it had before is kept", node)
	}
	return &manifest.Origin{
		Name: name, Held: true, Unready: true, Findings: []manifest.Finding{{Severity: manifest.Warning, Message: message}},
	}
}

// cameThrough returns the origin of a pod that came through here. It is held as long as its source at the upstream
// isn't ready: the upstream may not know its path yet.
func cameThrough(name, path string, held bool) *manifest.Origin {
	return &manifest.Origin{Name: name, Held: held, Findings: []manifest.Finding{{
		Severity: manifest.Warning,
		Message:  fmt.Sprintf("it came through this podconfigd and isn't relayed back: %.256s", path),
	}}}
}
