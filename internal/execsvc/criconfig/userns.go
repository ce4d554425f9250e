package criconfig

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// UserNamespace is a pod's own range of users and groups: the Length ids from HostID on the node are those from 0 in the pod.
type UserNamespace struct{ HostID, Length uint32 }

// userNamespace is the pod's, as the CRI has it. Nil: the node's. A pod that asks for one of its own never runs without.
func userNamespace(spec *v1.PodSpec, ids *UserNamespace) (*runtimeapi.UserNamespace, error) {
	if ptr.Deref(spec.HostUsers, true) {
		return nil, nil
	}
	if ids == nil || ids.Length == 0 {
		return nil, errors.New("hostUsers: false: there is no range of user ids for the pod")
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids.mapping(), Gids: ids.mapping()}, nil
}

func (u *UserNamespace) mapping() []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: u.HostID, Length: u.Length}}
}
