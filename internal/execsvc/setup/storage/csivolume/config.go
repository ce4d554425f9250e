package csivolume

import (
	"context"
	"log/slog"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
)

const (
	// BackendName is the name of the backend in the Traits of volumes, and of records.
	BackendName = "csi"
	// PluginName is upstream's name of the plugin.
	PluginName = "kubernetes.io/csi"
)

// Claims reads the claims of pods.
type Claims interface {
	// Claim returns the bound claim of a pod's volume and its PersistentVolume. They are not changed. A claim that isn't
	// bound is an error.
	Claim(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error)
}

// CSIDrivers has the CSIDriver objects of the cluster, or of the static pods.
type CSIDrivers interface {
	// CSIDriver returns the spec of an object, which isn't changed; false if there is none. It is an error if that isn't
	// known yet.
	CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriverSpec, bool, error)
}

// Secrets reads secrets.
type Secrets interface {
	// Secret returns the data of a secret, which isn't changed. The error names the secret, and has none of its data.
	Secret(ctx context.Context, namespace, name string) (map[string]string, error)
}

// TokenRequest is a request for a token of a pod's service account, which is bound to the pod.
type TokenRequest struct {
	Namespace, Pod string
	UID            types.UID
	ServiceAccount string
	// Audience is empty for the API server's own.
	Audience string
	// ExpirationSeconds is nil for the API server's default.
	ExpirationSeconds *int64
}

// Tokens returns a token. It may return the same one several times, while it is valid.
type Tokens func(ctx context.Context, r TokenRequest) (authenticationv1.TokenRequestStatus, error)

// Config configures a Resolver and a Backend.
type Config struct {
	// KubeletDir is --kubelet-dir. Drivers get paths that begin with it.
	KubeletDir string
	// Node is the node's name, for vol_data.json.
	Node string
	// Drivers are the registered drivers.
	Drivers *csi.Drivers
	// Claims and CSIDrivers are for a Resolver. Nil Claims: a claim is an error.
	Claims     Claims
	CSIDrivers CSIDrivers
	// Secrets is for a Backend. Nil: a volume with a secret is refused.
	Secrets Secrets
	// Tokens requests the tokens that a CSIDriver asks for. Nil: a volume of such a driver is refused.
	Tokens Tokens
	// SELinux chooses the SELinux contexts of volumes. Nil: no volume has one, and the runtime labels none.
	SELinux *selinuxmount.Chooser
	// Helpers changes volumes' groups. Nil: the Backend has its own.
	Helpers *foreign.Helpers
	// Log receives what a driver does wrong without an error. Nil: the default logger.
	Log *slog.Logger
}
