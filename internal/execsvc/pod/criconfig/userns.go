package criconfig

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// UserNamespace is a pod's own range of user and group IDs: the Length IDs from HostID on the node are those from 0 in
// the pod.
type UserNamespace struct{ HostID, Length uint32 }

// userNamespace returns the pod's namespace for the CRI. It is never nil: by the CRI, that is a namespace of the
// pod's own. A pod with hostUsers: false never runs without one.
func userNamespace(spec *v1.PodSpec, ids *UserNamespace) (*runtimeapi.UserNamespace, error) {
	if ptr.Deref(spec.HostUsers, true) {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	if ids == nil || ids.Length == 0 {
		return nil, errors.New("hostUsers: false: there is no range of user ids for the pod")
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids.mapping(), Gids: ids.mapping()}, nil
}

func (u *UserNamespace) mapping() []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: u.HostID, Length: u.Length}}
}
