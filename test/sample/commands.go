package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podstream/podstream/test/inside"
)

// stay runs until a signal (exit code 143), the end of ctx, or the end of duration. Zero is no duration: it runs on.
func (p *program) stay(ctx context.Context, duration time.Duration) int {
	var elapsed <-chan time.Time
	if duration > 0 {
		elapsed = time.After(duration)
	}
	select {
	case <-p.signals:
		p.signalled = true
		return exitTerminated
	case <-ctx.Done():
		return exitOK
	case <-elapsed:
		return exitOK
	}
}

func (p *program) sleep(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.stay(ctx, 0)
	}
	duration, err := parseDuration(args[0])
	if err != nil {
		return p.misused("sleep: " + err.Error())
	}
	if duration == 0 {
		return exitOK
	}
	return p.stay(ctx, duration)
}

func (p *program) exit(ctx context.Context, args []string) int {
	code, err := parseCode(args[0])
	if err != nil {
		return p.misused("exit: " + err.Error())
	}
	if len(args) == 2 {
		after, err := parseDuration(args[1])
		if err != nil {
			return p.misused("exit: " + err.Error())
		}
		if after > 0 {
			if ended := p.stay(ctx, after); ended != exitOK {
				return ended
			}
		}
	}
	return code
}

func (p *program) print(ctx context.Context, args []string) int {
	fmt.Fprintln(p.stdout, strings.Join(args, " "))
	return p.stay(ctx, 0)
}

// countPause is the time between two writes of count.
const countPause = 5 * time.Millisecond

func (p *program) count(ctx context.Context, args []string) int {
	rate, err := strconv.ParseUint(args[0], 10, 31)
	if err != nil {
		return p.misused("count: RATE must be a whole number")
	}
	var pause <-chan time.Time
	atOnce := 100
	if rate > 0 {
		ticker := time.NewTicker(countPause)
		defer ticker.Stop()
		pause = ticker.C
	} else {
		always := make(chan time.Time)
		close(always)
		pause = always
	}
	began, last, lines := time.Now(), 0, []byte(nil)
	for {
		select {
		case <-p.signals:
			fmt.Fprintf(p.stdout, "last %d\n", last)
			return exitOK
		case <-ctx.Done():
			return exitOK
		case <-pause:
		}
		if rate > 0 {
			atOnce = int(time.Since(began).Seconds()*float64(rate)) - last
		}
		lines = lines[:0]
		for range atOnce {
			last++
			lines = fmt.Appendf(lines, "%-99d\n", last)
		}
		if _, err := p.stdout.Write(lines); err != nil {
			return p.failed(err)
		}
	}
}

func (p *program) env(ctx context.Context, _ []string) int {
	for _, variable := range slices.Sorted(slices.Values(os.Environ())) {
		fmt.Fprintln(p.stdout, variable)
	}
	return p.stay(ctx, 0)
}

func (p *program) inspect(ctx context.Context, paths []string) int {
	if err := json.NewEncoder(p.stdout).Encode(inside.Look(paths...)); err != nil {
		return p.failed(err)
	}
	return p.stay(ctx, 0)
}

func (p *program) ignoreTerm(ctx context.Context, _ []string) int {
	for {
		select {
		case <-p.signals:
			fmt.Fprintln(p.stdout, "ignored a signal")
		case <-ctx.Done():
			return exitOK
		}
	}
}

// onTerm runs until a signal, then appends to a file and ends after a delay. Later signals change nothing.
func (p *program) onTerm(ctx context.Context, args []string) int {
	path, text, code := args[0], args[1], exitTerminated
	var takes time.Duration
	var err error
	if len(args) > 2 {
		if takes, err = parseDuration(args[2]); err != nil {
			return p.misused("on-term: " + err.Error())
		}
	}
	if len(args) > 3 {
		if code, err = parseCode(args[3]); err != nil {
			return p.misused("on-term: " + err.Error())
		}
	}
	select {
	case <-p.signals:
		p.signalled = true
	case <-ctx.Done():
		return exitOK
	}
	if err := appendLine(path, text); err != nil {
		return p.failed(err)
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return code
}

func (p *program) hog(ctx context.Context, args []string) int {
	mib, err := strconv.ParseUint(args[0], 10, 20)
	if err != nil {
		return p.misused("hog: MIB must be a whole number")
	}
	// In pieces, each touched at once, so that the memory limit is reached step by step and not by one huge
	// allocation.
	held := make([][]byte, 0, mib)
	for range mib {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += os.Getpagesize() {
			piece[i] = 1
		}
		held = append(held, piece)
	}
	fmt.Fprintf(p.stdout, "holding %d MiB\n", len(held))
	code := p.stay(ctx, 0)
	if len(held) != cap(held) { // keeps the pieces reachable until here
		return exitFailed
	}
	return code
}

func (p *program) pause(ctx context.Context, _ []string) int {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		reap()
		select {
		case <-children:
		case <-p.signals:
			p.signalled = true
			return exitOK
		case <-ctx.Done():
			return exitOK
		}
	}
}

// reap collects all children that have ended. In a pod with a shared process namespace, orphans become children of
// this process.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// parseDuration also accepts plain seconds, as a shell's sleep does.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return duration, nil
}

func parseCode(text string) (int, error) {
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, errors.New("the code must be a number from 0 to 255")
	}
	return int(code), nil
}
