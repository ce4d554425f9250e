package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patch changes the Node's status, labels and annotations to those of after. If nothing differs it makes no call,
// and returns before.
func (n *Node) patch(ctx context.Context, before, after *v1.Node) (*v1.Node, error) {
	data, err := statusPatch(before, after)
	if err != nil || data == nil {
		return before, err
	}
	return n.cfg.Client.Nodes().Patch(ctx, n.cfg.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
}

// statusPatch returns the difference as a strategic merge patch, or nil. The patch has the UID, so that it conflicts
// with a newer Node of the same name, and no version: other clients' parts of the status may change meanwhile. Only a patch
// that removes volumes from volumesInUse has the version: if it arrived late, when one of them is in use again, the
// controller could detach a volume that is mounted.
func statusPatch(before, after *v1.Node) ([]byte, error) {
	after = after.DeepCopy()
	after.Spec = before.Spec
	wanted := after.Status.Addresses
	replace := len(before.Status.Addresses) > 0 && !equality.Semantic.DeepEqual(before.Status.Addresses, wanted)
	if replace {
		after.Status.Addresses = before.Status.Addresses
	}
	from, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode the Node: %w", err)
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode the Node: %w", err)
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(from, to, v1.Node{})
	if err != nil {
		return nil, fmt.Errorf("compare the Node: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("read the difference: %w", err)
	}
	if replace {
		// The list's merge key, its type, isn't unique: two addresses of one type would be merged into one.
		child(patch, "status")["addresses"] = append(anys(wanted), map[string]any{"$patch": "replace"})
	}
	if len(patch) == 0 {
		return nil, nil
	}
	if before.UID != "" {
		child(patch, "metadata")["uid"] = before.UID
	}
	if slices.ContainsFunc(before.Status.VolumesInUse, func(name v1.UniqueVolumeName) bool {
		return !slices.Contains(after.Status.VolumesInUse, name)
	}) {
		child(patch, "metadata")["resourceVersion"] = before.ResourceVersion
	}
	return json.Marshal(patch)
}

// child returns the object of that name, and creates it if it doesn't exist.
func child(parent map[string]any, name string) map[string]any {
	c, ok := parent[name].(map[string]any)
	if !ok {
		c = map[string]any{}
		parent[name] = c
	}
	return c
}

func anys[T any](list []T) []any {
	out := make([]any, 0, len(list)+1)
	for _, one := range list {
		out = append(out, one)
	}
	return out
}
