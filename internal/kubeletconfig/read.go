package kubeletconfig

import (
	"context"

	"github.com/podstream/podstream/internal/openfile"
)

// ReadFile reads a regular file of at most so many bytes. Any other kind of file is an error at once: a pipe without
// a writer, or a file of the kernel's, could block its reader, and a device may never end.
func ReadFile(path string, most int) ([]byte, error) {
	data, err := openfile.Read(context.Background(), path, int64(most))
	return data, sizeError(path, most, err)
}
