package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profileEnv names an existing directory for the profiles of the servers: VARIANT-PID.cpu of the whole run, and
// VARIANT-PID.heap of the last request for its memory. Read them with go tool pprof.
const profileEnv = "PODSTREAM_BENCH_PROFILES"

// profiler writes the profiles; the zero value writes none.
type profiler struct{ path string }

// startProfiling starts the CPU profile, if profiles are wanted, and returns a function that ends it.
func startProfiling(variant string) (p profiler, stop func(), err error) {
	dir := os.Getenv(profileEnv)
	if dir == "" {
		return profiler{}, func() {}, nil
	}
	p.path = filepath.Join(dir, fmt.Sprintf("%s-%d", variant, os.Getpid()))
	f, err := os.Create(p.path + ".cpu")
	if err != nil {
		return p, nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return p, nil, err
	}
	return p, func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

func (p profiler) heap() error {
	if p.path == "" {
		return nil
	}
	f, err := os.Create(p.path + ".heap")
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("heap").WriteTo(f, 0)
}
