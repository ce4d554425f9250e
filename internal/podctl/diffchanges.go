package podctl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// effect is the effect of a diff's ops on the pods of one name.
type effect string

const (
	effectStarts   effect = "starts"
	effectStops    effect = "stops"
	effectReplaced effect = "restarts"
	effectInPlace  effect = "changes in place"
)

// podChange is the change of the pods with one name.
type podChange struct {
	ref *podconfigv1.PodRef
	// goes is the UID of the pod that is removed, and comes that of the pod that is added or updated. Empty means
	// none.
	goes, comes string
	// before is the pod as it is desired now, and after as it would be. Nil means none, or unknown.
	before, after *corev1.Pod
}

// changes groups the ops of a diff by the pods' names, adds the pods that are desired now, and sorts by name.
func (t *tool) changes(ctx context.Context, updates []*podconfigv1.PodUpdate) ([]*podChange, error) {
	byName := map[string]*podChange{}
	for _, u := range updates {
		for _, pod := range u.GetPods() {
			c := byName[podsummary.FullName(pod.GetRef())]
			if c == nil {
				c = &podChange{ref: pod.GetRef()}
				byName[podsummary.FullName(pod.GetRef())] = c
			}
			if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
				c.goes = pod.GetRef().GetUid()
				continue
			}
			c.comes = pod.GetRef().GetUid()
			// A pod that can't be decoded is already marked in the list of ops.
			if after, err := contentOf(pod); err == nil {
				c.after = after
			}
		}
	}
	names := slices.Sorted(maps.Keys(byName))
	for some := range slices.Chunk(names, namesOfOneList) {
		if err := t.addDesired(ctx, byName, some); err != nil {
			return nil, err
		}
	}
	changes := make([]*podChange, len(names))
	for i, name := range names {
		changes[i] = byName[name]
	}
	return changes, nil
}

// namesOfOneList is the maximum number of names in the filter of one list.
const namesOfOneList = 100

// addDesired adds the named pods as they are desired now: the one that goes, or else the one that is updated.
func (t *tool) addDesired(ctx context.Context, byName map[string]*podChange, names []string) error {
	filter := &podconfigv1.PodFilter{}
	for _, name := range names {
		filter.Namespaces = append(filter.Namespaces, byName[name].ref.GetNamespace())
		filter.Names = append(filter.Names, byName[name].ref.GetName())
	}
	slices.Sort(filter.Namespaces)
	filter.Namespaces = slices.Compact(filter.Namespaces)
	slices.Sort(filter.Names)
	filter.Names = slices.Compact(filter.Names)
	desired, err := t.listDesired(ctx, filter)
	if err != nil {
		return err
	}
	for _, pod := range desired {
		if c := byName[podsummary.FullName(pod.GetRef())]; c != nil && pod.GetRef().GetUid() == cmp.Or(c.goes, c.comes) {
			if c.before, err = contentOf(pod); err != nil {
				return fmt.Errorf("decode pod %s of podconfigd: %w", podsummary.FullName(pod.GetRef()), err)
			}
		}
	}
	return nil
}

// effect returns the effect on the pod.
func (c *podChange) effect() effect {
	switch {
	case c.comes == "":
		return effectStops
	case c.goes != "", len(c.restarting()) > 0:
		return effectReplaced
	case c.before == nil:
		return effectStarts
	}
	return effectInPlace
}

// reason returns the reason for the effect.
func (c *podChange) reason() string {
	switch e := c.effect(); {
	case e == effectStops:
		return "it isn't desired any more"
	case e == effectStarts:
		return "no pod of this name is desired now"
	case c.goes != "":
		return "its UID changes, so the pod that runs is ended before the new one starts"
	case e == effectReplaced:
		return "another image: " + strings.Join(c.restarting(), ", ")
	}
	return "no container restarts"
}

// restarting returns the containers that restart in a pod that stays: the kubelet compares their names and images.
func (c *podChange) restarting() []string {
	if c.before == nil || c.after == nil {
		return nil
	}
	images := map[string]string{}
	for _, container := range c.before.Spec.Containers {
		images[container.Name] = container.Image
	}
	var changed []string
	for _, container := range c.after.Spec.Containers {
		if image, there := images[container.Name]; there && image != container.Image {
			changed = append(changed, container.Name)
		}
	}
	return changed
}

// unified returns the difference in the form of diff -u. A pod that starts is added as a whole, and one that stops is removed as a
// whole. It is empty if a pod isn't known.
func (c *podChange) unified() (string, error) {
	if (c.before == nil) != (c.effect() == effectStarts) || (c.after == nil) != (c.effect() == effectStops) {
		return "", nil
	}
	before, err := comparableText(c.before)
	if err != nil {
		return "", err
	}
	after, err := comparableText(c.after)
	if err != nil {
		return "", err
	}
	const lines = 3 // of context
	name := render.Escape(podsummary.FullName(c.ref))
	text, err := udiff.ToUnified(name+" (desired now)", name+" (with the manifests)", before, udiff.Lines(before, after), lines)
	if err != nil {
		return "", fmt.Errorf("compare pod %s: %w", podsummary.FullName(c.ref), err)
	}
	return text, nil
}

// comparableText returns the pod in YAML without the fields that follow from others: UID, hash and times. The text is
// safe to print. It is empty without a pod.
func comparableText(pod *corev1.Pod) (string, error) {
	if pod == nil {
		return "", nil
	}
	pod = pod.DeepCopy()
	pod.UID, pod.CreationTimestamp, pod.ManagedFields, pod.ResourceVersion = "", metav1.Time{}, nil, ""
	delete(pod.Annotations, podsummary.SeenAnnotation)
	delete(pod.Annotations, podsummary.HashAnnotation)
	text, err := render.JSON(struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     corev1.PodSpec    `json:"spec"`
	}{pod.ObjectMeta, pod.Spec})
	if err != nil {
		return "", err
	}
	return render.YAML(text)
}

// changeDocument is a podChange in -o json and yaml.
type changeDocument struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Effect    effect `json:"effect"`
	Restarts  bool   `json:"restarts"`
	Reason    string `json:"reason"`
	Diff      string `json:"diff"`
}

// diffDocument is podconfig.v1.DiffManifestsResponse with the changes of the pods.
type diffDocument struct {
	Updates  []render.Proto   `json:"updates"`
	Findings []render.Proto   `json:"findings"`
	Revision uint64           `json:"revision"`
	Changes  []changeDocument `json:"changes"`
}

func newDiffDocument(resp *podconfigv1.DiffManifestsResponse, changes []*podChange) (diffDocument, error) {
	doc := diffDocument{Updates: []render.Proto{}, Findings: []render.Proto{}, Revision: resp.GetRevision(), Changes: []changeDocument{}}
	for _, u := range resp.GetUpdates() {
		doc.Updates = append(doc.Updates, render.Proto{Message: u})
	}
	for _, f := range resp.GetFindings() {
		doc.Findings = append(doc.Findings, render.Proto{Message: f})
	}
	for _, c := range changes {
		text, err := c.unified()
		if err != nil {
			return doc, err
		}
		doc.Changes = append(doc.Changes, changeDocument{
			Namespace: c.ref.GetNamespace(), Name: c.ref.GetName(), Effect: c.effect(), Restarts: c.effect() == effectReplaced,
			Reason: c.reason(), Diff: text,
		})
	}
	return doc, nil
}

// printChanges prints for each pod the effect and the difference.
func (t *tool) printChanges(changes []*podChange) error {
	for _, c := range changes {
		text, err := c.unified()
		if err != nil {
			return err
		}
		line := render.Escape(fmt.Sprintf("pod %s %s: %s", podsummary.FullName(c.ref), c.effect(), c.reason()))
		if _, err := io.WriteString(t.Stdout, "\n"+line+"\n"+text); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// contentOf decodes a pod. Nil means that it has no content.
func contentOf(pod *podconfigv1.Pod) (*corev1.Pod, error) {
	content := new(corev1.Pod)
	switch c := pod.GetContent().(type) {
	case *podconfigv1.Pod_Protobuf:
		err := content.Unmarshal(c.Protobuf)
		return content, err
	case *podconfigv1.Pod_Json:
		text, err := c.Json.MarshalJSON()
		if err != nil {
			return nil, err
		}
		err = json.Unmarshal(text, content)
		return content, err
	}
	return nil, nil //nolint:nilnil // No content is no error.
}
