package apiobjects

import (
	"context"
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// csiDriver is the needed part of a CSIDriver. The file of stored CSIDrivers has these field names.
type csiDriver struct {
	Name string
	Spec storagev1.CSIDriverSpec
}

// driversUnreadError is an objects.ErrUnknown. It has the reason why CSIDrivers can't be read, if there is one.
type driversUnreadError struct{ why error }

func (e driversUnreadError) Error() string {
	if e.why == nil {
		return "CSIDrivers have not yet been read at least once"
	}
	return fmt.Sprintf("CSIDrivers have not yet been read at least once: %v", e.why)
}

// Is implements errors.Is.
func (driversUnreadError) Is(target error) bool { return target == objects.ErrUnknown }

func (c *Cluster) findDrivers(context.Context) (Resource, error) { return c.cfg.CSIDrivers, nil }

// cutDriver keeps what the node needs of a CSIDriver. Storage capacity and scheduling are the scheduler's.
func cutDriver(o runtime.Object) (csiDriver, bool) {
	d, ok := o.(*storagev1.CSIDriver)
	if !ok {
		return csiDriver{}, false
	}
	// The strings are cloned, because they may be parts of the whole response.
	from := d.Spec.DeepCopy()
	to := storagev1.CSIDriverSpec{
		AttachRequired: from.AttachRequired, PodInfoOnMount: from.PodInfoOnMount, RequiresRepublish: from.RequiresRepublish,
		SELinuxMount: from.SELinuxMount, NodeAllocatableUpdatePeriodSeconds: from.NodeAllocatableUpdatePeriodSeconds,
		ServiceAccountTokenInSecrets: from.ServiceAccountTokenInSecrets, TokenRequests: from.TokenRequests,
	}
	if from.FSGroupPolicy != nil {
		policy := storagev1.FSGroupPolicy(strings.Clone(string(*from.FSGroupPolicy)))
		to.FSGroupPolicy = &policy
	}
	for _, mode := range from.VolumeLifecycleModes {
		to.VolumeLifecycleModes = append(to.VolumeLifecycleModes, storagev1.VolumeLifecycleMode(strings.Clone(string(mode))))
	}
	for i := range to.TokenRequests {
		to.TokenRequests[i].Audience = strings.Clone(to.TokenRequests[i].Audience)
	}
	return csiDriver{strings.Clone(d.Name), to}, true
}

// CSIDriver returns the spec of a driver's CSIDriver, which must not be changed. found is false if the cluster has none:
// the driver then has all of upstream's defaults. The error is an objects.ErrUnknown while that isn't known: a CSIDriver may
// have been created since the others were stored. The pod is woken at the next change of CSIDrivers; an empty UID is no pod.
func (c *Cluster) CSIDriver(pod types.UID, name string) (spec storagev1.CSIDriverSpec, found bool, err error) {
	drivers, known := c.drivers.find(pod, func(d csiDriver) bool { return d.Name == name })
	switch {
	case len(drivers) > 0:
		return drivers[0].Spec, true, nil
	case known != read:
		return storagev1.CSIDriverSpec{}, false, driversUnreadError{c.drivers.failing()}
	default:
		return storagev1.CSIDriverSpec{}, false, nil
	}
}

// CSIDriversChanged returns a channel that is closed when CSIDrivers have changed.
func (c *Cluster) CSIDriversChanged() <-chan struct{} { return c.drivers.next() }
