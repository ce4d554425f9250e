package csinode

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// idAnnotation has a JSON object with each driver's ID of the node.
const idAnnotation = "csi.volume.kubernetes.io/nodeid"

// mark sets the drivers' labels and the annotation of the Node. It returns the Node as the API server has it then, and the
// drivers for which it has both.
func (k *Keeper) mark(ctx context.Context, uid types.UID, wanted []Driver) (node *v1.Node, accepted []Driver, err error) {
	node, err = k.cfg.Client.Nodes().Get(ctx, k.cfg.Node, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("get the Node: %w", err)
	case node.UID != uid:
		return nil, nil, fmt.Errorf("the Node has just been replaced: its UID is %s, and not %s", node.UID, uid)
	}
	for _, d := range wanted {
		next, err := k.markOf(ctx, node, d)
		ok, err := k.judge(d.Name, err)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			node, accepted = next, append(accepted, d)
		}
	}
	return node, accepted, nil
}

// markOf sets the labels and the ID of one driver. It returns the Node as the API server has it then.
func (k *Keeper) markOf(ctx context.Context, node *v1.Node, d Driver) (*v1.Node, error) {
	labels, annotations := map[string]any{}, map[string]any{}
	for _, key := range names(d.Topology) {
		had, has := node.Labels[key]
		switch {
		case !has:
			labels[key] = d.Topology[key]
		case had != d.Topology[key]:
			return nil, collisionError{fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q",
				key, d.Topology[key], key, had)}
		}
	}
	ids := idsOf(node)
	if ids[d.Name] != d.NodeID {
		ids[d.Name] = d.NodeID
		annotations[idAnnotation] = encode(ids)
	}
	return k.patch(ctx, node, labels, annotations)
}

// unmark removes the IDs of drivers that have ended. Labels stay: another driver, or a volume's affinity, may use them.
func (k *Keeper) unmark(ctx context.Context, node *v1.Node) (err error) {
	ids, changed := idsOf(node), false
	for name := range ids {
		if !k.stays(name) {
			delete(ids, name)
			changed = true
		}
	}
	switch {
	case !changed:
		return nil
	case len(ids) == 0:
		_, err = k.patch(ctx, node, nil, map[string]any{idAnnotation: nil})
	default:
		_, err = k.patch(ctx, node, nil, map[string]any{idAnnotation: encode(ids)})
	}
	return err
}

// idsOf returns the drivers' IDs in the annotation. One that can't be read is replaced: it is this package's.
func idsOf(node *v1.Node) map[string]string {
	ids := map[string]string{}
	if err := json.Unmarshal([]byte(node.Annotations[idAnnotation]), &ids); err != nil || ids == nil {
		return map[string]string{}
	}
	return ids
}

func encode(ids map[string]string) string {
	data, err := json.Marshal(ids)
	if err != nil {
		panic(err) // Strings can be encoded.
	}
	return string(data)
}

// patch changes labels and annotations of this version of the Node: a label that another client sets meanwhile isn't
// overwritten.
func (k *Keeper) patch(ctx context.Context, node *v1.Node, labels, annotations map[string]any) (*v1.Node, error) {
	if len(labels)+len(annotations) == 0 {
		return node, nil
	}
	meta := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, fmt.Errorf("encode a patch of the Node: %w", err)
	}
	// A node may change its labels and annotations by its status too, and needs no right to change the rest.
	patched, err := k.cfg.Client.Nodes().Patch(ctx, k.cfg.Node, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patch the Node's labels and annotations: %w", err)
	}
	return patched, nil
}
