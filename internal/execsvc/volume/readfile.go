package volume

import (
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/volume/subpath"
)

// maxFile is how large a file can be that ReadFile reads.
const maxFile = 1 << 20

// ReadFile reads a regular file of 1 MiB at most from an emptyDir of the pod: variables that a container has written there. No link
// leads it out of the volume, and it waits for nobody. A file that isn't there is fs.ErrNotExist.
func (m *Manager) ReadFile(pod *v1.Pod, volume, path string) ([]byte, error) {
	if err := criconfig.CheckUID(pod.UID); err != nil {
		return nil, err
	}
	data, err := m.readFile(pod, volume, path)
	if err != nil {
		return nil, fmt.Errorf("read %q from volume %q: %w", path, volume, err)
	}
	return data, nil
}

func (m *Manager) readFile(pod *v1.Pod, volume, path string) ([]byte, error) {
	spec, err := specOf(pod, volume)
	if err != nil {
		return nil, err
	}
	if spec.EmptyDir == nil {
		return nil, errors.New("it isn't an emptyDir")
	}
	_, v, err := m.volume(pod, spec)
	if err != nil {
		return nil, err
	}
	f, err := subpath.OpenBeneath(v.Dir, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return data, nil
}
