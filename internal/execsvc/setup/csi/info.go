package csi

import (
	"context"
	"fmt"
	"maps"
	"math"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxNodeID is the maximum length of a node's ID in bytes, as the specification and CSINode have it.
	maxNodeID = 256
	// maxSegments is the maximum number of a topology's segments.
	maxSegments = 64
)

// NodeInfo is the node as a driver sees it, for the CSINode and the labels of the Node.
type NodeInfo struct {
	// NodeID is the driver's name of the node.
	NodeID string
	// MaxVolumes is the number of volumes that the node can have. 0: the driver doesn't limit it.
	MaxVolumes int32
	// Topology are the labels that say where the node is. It must not be changed.
	Topology map[string]string
}

// NodeGetInfo asks the driver. Info returns the last answer of Drivers.Refresh or of the registration.
func (d *Driver) NodeGetInfo(ctx context.Context) (NodeInfo, error) {
	answer, err := invoke(ctx, d, "NodeGetInfo", &csipb.NodeGetInfoRequest{},
		func(n csipb.NodeClient) stubOf[*csipb.NodeGetInfoRequest, *csipb.NodeGetInfoResponse] {
			return n.NodeGetInfo
		})
	if err != nil {
		return NodeInfo{}, err
	}
	return nodeInfo(answer)
}

// nodeInfo checks an answer as the API server will check the CSINode and the Node.
func nodeInfo(answer *csipb.NodeGetInfoResponse) (NodeInfo, error) {
	id, segments := answer.GetNodeId(), answer.GetAccessibleTopology().GetSegments()
	switch {
	case id == "":
		return NodeInfo{}, fmt.Errorf("NodeGetInfo: the driver has no ID of the node")
	case len(id) > maxNodeID:
		return NodeInfo{}, fmt.Errorf("NodeGetInfo: the ID of the node has %d bytes; at most %d are allowed", len(id), maxNodeID)
	case answer.GetMaxVolumesPerNode() < 0:
		return NodeInfo{}, fmt.Errorf("NodeGetInfo: the maximum number of volumes is %d", answer.GetMaxVolumesPerNode())
	case len(segments) > maxSegments:
		return NodeInfo{}, fmt.Errorf("NodeGetInfo: the topology has %d segments; at most %d are allowed", len(segments), maxSegments)
	}
	for key, value := range segments {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			return NodeInfo{}, fmt.Errorf("NodeGetInfo: the topology's segment %.100q: %.100q can't be a label", key, value)
		}
	}
	return NodeInfo{
		NodeID: id, MaxVolumes: int32(min(answer.GetMaxVolumesPerNode(), math.MaxInt32)), Topology: maps.Clone(segments),
	}, nil
}
