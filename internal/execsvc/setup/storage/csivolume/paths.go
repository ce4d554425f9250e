package csivolume

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
)

const (
	// globalMount is where a volume is staged, in its directory.
	globalMount = "globalmount"
	// maxDriverName is the maximum length of a driver's name.
	maxDriverName = 63
)

// place is a directory with a volume's mount, and vol_data.json beside it.
type place struct {
	// base is a directory of kubeletdir, which is trusted. name is the place's own directory beneath it, and mount the name
	// of the mount point in that.
	base, name, mount string
	// shared is set if the directory has the mount points of other volumes too: it has no vol_data.json, and stays.
	shared bool
}

// dir returns the path of the place's directory, and target that of its mount point.
func (p place) dir() string    { return filepath.Join(p.base, p.name) }
func (p place) target() string { return filepath.Join(p.dir(), p.mount) }

// staged returns where a volume is staged.
func staged(kubeletDir string, k record.Key) (place, error) {
	if err := checkDriver(k.Driver); err != nil {
		return place{}, notSent(err)
	}
	sum := sha256.Sum256([]byte(k.Handle))
	return place{
		base: kubeletdir.Plugins(kubeletDir), name: filepath.Join(PluginName, k.Driver, fmt.Sprintf("%x", sum)), mount: globalMount,
	}, nil
}

// published returns where a volume is published. It must be the directory that package storage has for it.
func published(kubeletDir string, p *storage.Publishing) (place, error) {
	if err := checkPod(p); err != nil {
		return place{}, err
	}
	at := place{
		base: kubeletdir.PodsDir(kubeletDir), mount: storage.MountDir,
		name: filepath.Join(string(p.UID), "volumes", strings.ReplaceAll(PluginName, "/", "~"), p.Name),
	}
	return at, checkDir(p, at.dir())
}

// checkPod returns an error if the pod's UID or the volume's name can't be names of directories.
func checkPod(p *storage.Publishing) error {
	if err := podmeta.CheckUID(p.UID); err != nil {
		return notSent(err)
	}
	return checkName(p.Name)
}

func checkName(name string) error {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return notSent(fmt.Errorf("%q can't be the name of a volume's directory", name))
	}
	return nil
}

// checkDir returns an error if package storage has the publication elsewhere than drivers do.
func checkDir(p *storage.Publishing, want string) error {
	if p.Dir != want {
		return notSent(fmt.Errorf("the volume's directory is %s; drivers can only use %s: delete the pod, and create it again", p.Dir, want))
	}
	return nil
}

// checkDriver returns an error if a name can't be that of a driver, and so of a directory.
func checkDriver(name string) error {
	if len(name) > maxDriverName || len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
		return fmt.Errorf("%.100q isn't a CSI driver's name: a DNS name of at most %d characters", name, maxDriverName)
	}
	return nil
}
