package volume

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
)

// maxFile is the maximum size of a file that ReadFile reads.
const maxFile = 1 << 20

// ReadFile reads a regular file of at most 1 MiB from an emptyDir of the pod, which has variables that a container
// wrote. It follows no link out of the volume, and never blocks on the file. A missing file is fs.ErrNotExist.
func (m *Manager) ReadFile(pod *v1.Pod, volume, path string) ([]byte, error) {
	if err := podmeta.CheckUID(pod.UID); err != nil {
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
	_, v, err := m.volume(context.Background(), pod, spec) // An emptyDir isn't Located.
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
