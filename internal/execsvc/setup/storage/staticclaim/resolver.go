package staticclaim

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var _ storage.Claims = (*Resolver)(nil)

// Objects are the objects of a pod's source; an objects.Reader.
type Objects interface {
	Claim(name string) (*v1.PersistentVolumeClaim, error)
	Volume(name string) (*v1.PersistentVolume, error)
	Driver(name string) (*storagev1.CSIDriver, error)
}

// Config configures a Resolver.
type Config struct {
	// Objects returns the objects of the pod's source.
	Objects     func(pod *v1.Pod) Objects
	Bindings    *Bindings
	Directories directory.Dirs
	// Changing returns an error while a process of an earlier podexecd may still change the directories. Nil: none does.
	Changing func() error
	// CSI is for volumes of CSI drivers. It needs neither Claims nor CSIDrivers.
	CSI csivolume.Config
}

// Resolver makes the storage.Volume of a static pod's claim. It is safe for concurrent use.
type Resolver struct{ cfg Config }

// New returns a Resolver.
func New(cfg Config) *Resolver { return &Resolver{cfg} }

// Resolve is part of storage.Claims. It binds the claim.
func (r *Resolver) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	if spec.PersistentVolumeClaim == nil {
		return storage.Volume{}, fmt.Errorf("static pods have no volumes of their own with the source %s, only those of claims",
			criconfig.VolumeSourceName(&spec.VolumeSource))
	}
	objects := r.cfg.Objects(pod)
	claim, err := objects.Claim(spec.PersistentVolumeClaim.ClaimName)
	if err != nil {
		return storage.Volume{}, err
	}
	of := directory.Claim{Namespace: claim.Namespace, Name: claim.Name}
	if err := of.Check(); err != nil {
		return storage.Volume{}, err
	}
	var v storage.Volume
	if claim.Spec.VolumeName == "" {
		v, err = r.directory(pod, of)
	} else {
		v, err = r.persistent(ctx, pod, spec, claim, objects)
	}
	v.ReadOnly = v.ReadOnly || spec.PersistentVolumeClaim.ReadOnly
	v.Exclusive = !slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany)
	return v, err
}

// directory binds the claim to a directory, which is created once.
func (r *Resolver) directory(pod *v1.Pod, of directory.Claim) (storage.Volume, error) {
	if r.cfg.Changing != nil {
		if err := r.cfg.Changing(); err != nil {
			return storage.Volume{}, err
		}
	}
	bound, err := r.cfg.Bindings.bind(Binding{Claim: of})
	if err != nil {
		return storage.Volume{}, err
	}
	if !bound.Made {
		if err := r.cfg.Directories.Create(of); err != nil {
			return storage.Volume{}, err
		}
		if err := r.cfg.Bindings.made(of); err != nil {
			return storage.Volume{}, err
		}
	}
	return r.cfg.Directories.Volume(pod, of)
}

// persistent binds the claim to its PersistentVolume.
func (r *Resolver) persistent(
	ctx context.Context, pod *v1.Pod, spec *v1.Volume, claim *v1.PersistentVolumeClaim, objects Objects,
) (storage.Volume, error) {
	pv, err := objects.Volume(claim.Spec.VolumeName)
	if err != nil {
		return storage.Volume{}, err
	}
	if err := fits(claim, pv); err != nil {
		return storage.Volume{}, err
	}
	driver, err := objects.Driver(pv.Spec.CSI.Driver)
	if err != nil {
		return storage.Volume{}, err
	}
	if ptr.Deref(driver.Spec.AttachRequired, true) {
		return storage.Volume{}, fmt.Errorf("CSIDriver %s must have attachRequired: false: %w", driver.Name, storage.ErrNoAttachments)
	}
	cfg := r.cfg.CSI
	cfg.CSIDrivers = oneDriver{driver}
	v, err := csivolume.NewResolver(cfg).Persistent(ctx, pod, spec, pv)
	if err != nil {
		return storage.Volume{}, err
	}
	_, err = r.cfg.Bindings.bind(Binding{
		Claim:  directory.Claim{Namespace: claim.Namespace, Name: claim.Name},
		Volume: pv.Name, Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle,
	})
	return v, err
}

// fits returns an error if the claim can't be bound to the PersistentVolume, as the controller of a cluster decides it.
func fits(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	ref, name := pv.Spec.ClaimRef, claim.Namespace+"/"+claim.Name
	wanted, has := claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	switch {
	case pv.Spec.CSI == nil:
		return fmt.Errorf("PersistentVolume %s isn't one of a CSI driver", pv.Name)
	case ref != nil && (ref.Namespace != claim.Namespace || ref.Name != claim.Name):
		return fmt.Errorf("PersistentVolume %s is for claim %s/%s (spec.claimRef), and not for %s", pv.Name, ref.Namespace, ref.Name, name)
	case ptr.Deref(claim.Spec.StorageClassName, "") != pv.Spec.StorageClassName:
		return fmt.Errorf("claim %s has another storageClassName than PersistentVolume %s: %q, not %q", name, pv.Name,
			ptr.Deref(claim.Spec.StorageClassName, ""), pv.Spec.StorageClassName)
	case wanted.Cmp(has) > 0:
		return fmt.Errorf("claim %s requests %s, and PersistentVolume %s has %s", name, wanted.String(), pv.Name, has.String())
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return fmt.Errorf("claim %s has the access mode %s, and PersistentVolume %s doesn't", name, mode, pv.Name)
		}
	}
	return nil
}

// oneDriver is one CSIDriver as csivolume.CSIDrivers.
type oneDriver struct{ driver *storagev1.CSIDriver }

// CSIDriver is part of csivolume.CSIDrivers.
func (o oneDriver) CSIDriver(_ context.Context, name string) (*storagev1.CSIDriverSpec, bool, error) {
	return &o.driver.Spec, o.driver.Name == name, nil
}
