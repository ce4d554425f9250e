package payload

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// maxMode has all permission bits. Files of volumes have no others.
const maxMode = 0o777

// File is one file of a volume.
type File struct {
	// Data is shared with its object, and must not be changed.
	Data []byte
	// Mode has the permission bits of chmod(2), 0 to 0777, without those that an fsGroup adds.
	Mode uint32
	// UID is the owner. Nil: podexecd's user.
	UID *int64
}

// Objects are the ConfigMaps and Secrets of the pod's namespace: an objects.Reader. The errors are objects.ErrMissing
// and objects.ErrUnknown.
type Objects interface {
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
}

// defaultFileMode is the default mode of files, for all kinds of volumes.
const defaultFileMode = v1.ConfigMapVolumeSourceDefaultMode

// set collects a volume's files.
type set struct {
	files map[string]File
	// mode is the volume's default mode.
	mode int32
}

func newSet(defaultMode *int32) set {
	s := set{files: map[string]File{}, mode: defaultFileMode}
	if defaultMode != nil {
		s.mode = *defaultMode
	}
	return s
}

// add adds or replaces a file. A nil mode is the volume's default.
func (s set) add(path string, data []byte, mode *int32) error {
	if mode == nil {
		mode = &s.mode
	}
	return s.addOwned(path, data, *mode, nil)
}

func (s set) addOwned(path string, data []byte, mode int32, uid *int64) error {
	clean, err := CleanPath(path)
	if err != nil {
		return err
	}
	if mode < 0 || mode > maxMode {
		return fmt.Errorf("path %q: mode %#o isn't between 0 and %#o", path, mode, maxMode)
	}
	s.files[clean] = File{Data: data, Mode: uint32(mode), UID: uid}
	return nil
}
