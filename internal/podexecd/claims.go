package podexecd

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiobjects"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/cluster/csinode"
	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
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
	})
	c.inUse = clusternode.NewInUse()
	c.attachments = apivolumes.NewAttachments(c.volumes, c.inUse)
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

// volumeTokens requests the tokens that drivers get.
func volumeTokens(api *apiclient.Client) csivolume.Tokens {
	return func(ctx context.Context, r csivolume.TokenRequest) (authenticationv1.TokenRequestStatus, error) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: r.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: r.Pod, UID: r.UID},
		}}
		if r.Audience != "" {
			request.Spec.Audiences = []string{r.Audience}
		}
		made, err := api.CreateToken(ctx, r.Namespace, r.ServiceAccount, request)
		if err != nil {
			return authenticationv1.TokenRequestStatus{}, err
		}
		return made.Status, nil
	}
}
