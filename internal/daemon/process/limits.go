package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetOOMScoreAdj sets the process's oom_score_adj, from -1000 to 1000. Processes that it starts inherit it. A lower value
// than the current one needs CAP_SYS_RESOURCE.
func SetOOMScoreAdj(adj int) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(adj)), 0)
}

// SetOpenFiles sets how many files the process may open. Processes that it starts inherit it, as the Go runtime doesn't
// restore their first limit after that. A higher value than the hard limit needs CAP_SYS_RESOURCE; the error has the limit
// that stays.
func SetOpenFiles(most uint64) error {
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most})
	if err == nil {
		return nil
	}
	var stays unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &stays) == nil {
		err = fmt.Errorf("%w; the limit stays at %d of %d", err, stays.Cur, stays.Max)
	}
	return err
}
