package payload

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// maxMode has all permission bits. A volume's files have no others.
const maxMode = 0o777

// File is one file of a volume.
type File struct {
	// Data is shared with the object that it comes from, and must not be changed.
	Data []byte
	// Mode has the permission bits as chmod(2) takes them, 0 to 0777; what an fsGroup adds isn't in it.
	Mode uint32
	// UID is the owner. Nil: the user that podexecd runs as.
	UID *int64
}

// Objects are the ConfigMaps and Secrets of the pod's namespace: an objects.Reader. The errors are objects.ErrMissing and
// objects.ErrUnknown.
type Objects interface {
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
}

// defaultFileMode is that of files where the volume says nothing, of whatever kind it is.
const defaultFileMode = v1.ConfigMapVolumeSourceDefaultMode

// set is a volume's files while they are gathered.
type set struct {
	files map[string]File
	// mode is that of files for which nothing else is asked.
	mode int32
}

func newSet(defaultMode *int32) set {
	s := set{files: map[string]File{}, mode: defaultFileMode}
	if defaultMode != nil {
		s.mode = *defaultMode
	}
	return s
}

// add adds a file, in place of one that has the path already. A nil mode is the volume's default.
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
