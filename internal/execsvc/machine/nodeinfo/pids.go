package nodeinfo

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// pidResource is the name of the number of processes in reservations. Pods can't request it, so it is in no capacity.
const pidResource v1.ResourceName = "pid"

// leastPIDs is the smallest limit of all pods together that a reservation can cause. With fewer processes hardly one
// pod starts: beside the sandbox's process, the runtime needs several threads to start each container.
const leastPIDs = 64

// pidsForPods returns how many of the machine's processes all pods together may have: those that aren't reserved. If
// they are fewer than leastPIDs, the reservation is ignored, and returned. The kubelet too starts, and sets no limit,
// if nothing is left; but it limits pods to any smaller rest.
func pidsForPods(has resource.Quantity, s Settings) (limit, ignored resource.Quantity, err error) {
	kube, err := Reservation("kubeReserved", s.KubeReserved)
	if err != nil {
		return limit, ignored, err
	}
	system, err := Reservation("systemReserved", s.SystemReserved)
	if err != nil {
		return limit, ignored, err
	}
	reserved := kube[pidResource].DeepCopy()
	reserved.Add(system[pidResource])
	limit = has.DeepCopy()
	limit.Sub(reserved)
	if !reserved.IsZero() && limit.CmpInt64(leastPIDs) < 0 {
		return has, reserved, nil
	}
	return limit, ignored, nil
}
