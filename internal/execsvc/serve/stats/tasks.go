package stats

import (
	"context"
	"time"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

const (
	// tasksTime is the time for the processes of all containers. Each container has an equal share of the remaining time,
	// so that no container with many files delays the others.
	tasksTime = time.Second
	// maxTaskFiles is the number of descriptors and threads of one container that are looked at.
	maxTaskFiles = 20_000
)

// tasks returns the processes of containers, by cgroup. It waits at most twice as long as the reading may take.
func (s *Stats) tasks(ctx context.Context) map[string]*kernel.Tasks {
	ctx, cancel := context.WithTimeout(ctx, 2*s.tasksTime)
	defer cancel()
	all, err := s.processes.get(ctx, maxAge)
	if err != nil {
		return nil
	}
	return all
}

// readTasks looks at the processes of the containers of the last reading.
func (s *Stats) readTasks(ctx context.Context) (map[string]*kernel.Tasks, error) {
	r, _, _ := s.whole.known(maxAge)
	out := map[string]*kernel.Tasks{}
	if r == nil {
		return out, nil
	}
	var paths []string
	add := func(path string) {
		if path != "" {
			paths = append(paths, path)
		}
	}
	for i := range r.pods {
		for _, c := range r.pods[i].containers {
			add(c.path)
		}
		add(r.pods[i].sandbox.path)
	}
	for _, g := range r.system {
		if g.path != s.cfg.PodsCgroup {
			paths = append(paths, g.path)
		}
	}
	// The real clock: this bounds work, and isn't a time that anything compares.
	end := time.Now().Add(s.tasksTime)
	for i, path := range paths {
		share := time.Until(end) / time.Duration(len(paths)-i)
		if t := s.kernel.Tasks(path, budget(ctx, s.tasksFiles, time.Now().Add(share))); t != nil {
			out[path] = t
		}
	}
	return out, ctx.Err()
}

// budget returns a function that reports whether another file may be looked at.
func budget(ctx context.Context, files int, until time.Time) func() bool {
	return func() bool {
		files--
		// Asking for the time costs a fraction of a look at a file.
		return files >= 0 && time.Now().Before(until) && ctx.Err() == nil
	}
}

// taskSeries are the series of processes.
var taskSeries = []series{
	ofTasks("container_file_descriptors", "Open files.", func(t *kernel.Tasks, add adder) { add(float64(t.Descriptors)) }),
	ofTasks("container_sockets", "Open sockets.", func(t *kernel.Tasks, add adder) { add(float64(t.Sockets)) }),
	ofTasks("container_ulimits_soft", "Soft limits of the first process; -1: unlimited.", func(t *kernel.Tasks, add adder) {
		switch {
		case t.OpenFiles == nil:
		case *t.OpenFiles == kernel.Unlimited:
			add(-1, "ulimit", "max_open_files")
		default:
			add(float64(*t.OpenFiles), "ulimit", "max_open_files")
		}
	}),
	ofTasks("container_tasks_state", "Threads by state.", func(t *kernel.Tasks, add adder) {
		add(float64(t.Running), "state", "running")
		add(float64(t.Sleeping), "state", "sleeping")
		add(float64(t.Stopped), "state", "stopped")
		add(float64(t.Uninterruptible), "state", "uninterruptible")
	}),
}

func ofTasks(name, help string, values func(*kernel.Tasks, adder)) series {
	return timed(name, help, gauge, func(x *row, add adder) {
		if x.tasks != nil {
			values(x.tasks, add)
		}
	})
}
