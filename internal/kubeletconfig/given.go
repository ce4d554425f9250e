package kubeletconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/openfile"
)

// pipeTimeout is how long the writer of a pipe may take.
var pipeTimeout = 30 * time.Second

// given has the contents of pipes that were named on the command line. A pipe can be read only once, but the
// configuration is read again.
var given struct {
	mu    sync.Mutex
	pipes map[string][]byte
}

// readGiven is ReadFile for a path on the program's own command line, which may also be a pipe; it waits for the
// pipe's writer.
func readGiven(path string, most int) ([]byte, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	if data, ok := given.pipes[path]; ok {
		return data, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), pipeTimeout, fmt.Errorf("its writer hasn't ended after %v", pipeTimeout))
	defer cancel()
	data, piped, err := openfile.ReadGiven(ctx, path, int64(most))
	if err != nil {
		return nil, sizeError(path, most, err)
	}
	if piped {
		if given.pipes == nil {
			given.pipes = map[string][]byte{}
		}
		given.pipes[path] = data
	}
	return data, nil
}

func sizeError(path string, most int, err error) error {
	var size *openfile.SizeError
	if errors.As(err, &size) {
		return fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return err
}
