package podexecd

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiexpansion"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiobjects"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/cluster/csinode"
	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/decide/attachlimit"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/token"
)

// newVolumes makes what the API server knows of volumes.
func (c *cluster) newVolumes(wake func(types.UID)) {
	c.volumes = apivolumes.New(apivolumes.Config{
		Client: c.api, Node: c.opts.node, Wake: wake,
		Attached: func() []v1.AttachedVolume {
			if object := c.node.Node(); object != nil {
				return object.Status.VolumesAttached
			}
			return nil
		},
		Exceeded: c.exceeded,
	})
	c.inUse = clusternode.NewInUse()
	c.attachments = apivolumes.NewAttachments(c.volumes, c.inUse)
}

// newExpander makes what expands volumes by their claims.
func (c *cluster) newExpander(n *node, expand func(ctx context.Context, uid types.UID, volume string, bytes int64) error) *apiexpansion.Expander {
	return apiexpansion.New(apiexpansion.Config{
		Client: c.api, Claims: c.volumes, Node: c.opts.node, Expand: expand, ClaimEvent: c.sink.RecordClaim, Log: c.log,
		PodEvent: func(pod *v1.Pod, eventType, reason, message string) {
			n.events.Record(pod, "", eventType, reason, message)
		},
	})
}

// exceeded reports whether pods fail because the node can't have another volume of a driver attached. Then the driver is asked again how
// many it can have, so that the scheduler knows.
func (c *cluster) exceeded(driver string) bool {
	spec, found, err := c.objects.CSIDriver("", driver)
	if err != nil || !found || !attachlimit.Fails(&spec) {
		return false
	}
	c.csiNodes.RefreshNow(driver)
	return true
}

// labels returns the labels of the Node; false while it isn't known.
func (c *cluster) labels() (map[string]string, bool) {
	object := c.node.Node()
	if object == nil {
		return nil, false
	}
	return object.Labels, true
}

// csiNode returns the keeper of the CSINode.
func (c *cluster) csiNode(drivers *csi.Drivers) *csinode.Keeper {
	return csinode.New(csinode.Config{
		Client: c.unbounded, Node: c.opts.node, UID: c.node.UID,
		Drivers: func() ([]csinode.Driver, <-chan struct{}) {
			registered, changed := drivers.List()
			all := make([]csinode.Driver, len(registered))
			for i, r := range registered {
				all[i] = csinode.Driver{Name: r.Name, NodeID: r.Info.NodeID, Topology: r.Info.Topology, MaxVolumes: r.Info.MaxVolumes}
			}
			return all, changed
		},
		Period: func(driver string) time.Duration {
			// While the CSIDriver is unknown the driver isn't asked.
			spec, _, _ := c.objects.CSIDriver("", driver)
			return time.Duration(ptr.Deref(spec.NodeAllocatableUpdatePeriodSeconds, 0)) * time.Second
		},
		PeriodsChanged: c.objects.CSIDriversChanged, Refresh: drivers.Refresh, Logger: c.log,
	})
}

// claims are the API server's claims as csivolume.Claims.
type claims struct{ volumes *apivolumes.Volumes }

// Claim is part of csivolume.Claims.
func (c claims) Claim(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	claimed, err := c.volumes.Claim(ctx, pod, spec)
	return claimed.Claim, claimed.Volume, err
}

// csiDrivers are the API server's CSIDrivers as csivolume.CSIDrivers.
type csiDrivers struct{ objects *apiobjects.Cluster }

// CSIDriver is part of csivolume.CSIDrivers.
func (c csiDrivers) CSIDriver(_ context.Context, name string) (*storagev1.CSIDriverSpec, bool, error) {
	spec, found, err := c.objects.CSIDriver("", name) // waitingPods wakes pods.
	return &spec, found, err
}

// republishes reports whether the driver's CSIDriver has requiresRepublish. An unknown CSIDriver doesn't have it.
func (c csiDrivers) republishes(driver string) bool {
	spec, found, err := c.objects.CSIDriver("", driver)
	return err == nil && found && ptr.Deref(spec.RequiresRepublish, false)
}

// volumeTokens returns the tokens that drivers get. Those of one pod and audience are requested once for all its volumes, and
// replaced well before they expire.
func volumeTokens(tokens *token.Tokens) csivolume.Tokens {
	return func(ctx context.Context, r csivolume.TokenRequest) (authenticationv1.TokenRequestStatus, error) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Pod, UID: r.UID}}
		pod.Spec.ServiceAccountName = r.ServiceAccount
		return tokens.ForVolume(ctx, pod, r.Audience, r.ExpirationSeconds)
	}
}
