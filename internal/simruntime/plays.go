package simruntime

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The subcommands of the sample program, with the same behaviour.

func playSleep(_ environment, args []string) process {
	if len(args) == 0 {
		return staying()
	}
	duration, err := parseDuration(args[0])
	if err != nil {
		return misused("sleep: " + err.Error())
	}
	return process{lifetime: duration, termCode: exitTerminated}
}

func playExit(_ environment, args []string) process {
	code, err := parseCode(args[0])
	if err != nil {
		return misused("exit: " + err.Error())
	}
	p := process{exitCode: code, termCode: exitTerminated}
	if len(args) == 2 {
		if p.lifetime, err = parseDuration(args[1]); err != nil {
			return misused("exit: " + err.Error())
		}
	}
	return p
}

func playPrint(_ environment, args []string) process {
	return staying(strings.Split(strings.Join(args, " "), "\n")...)
}

func playEnv(e environment, _ []string) process {
	return staying(slices.Sorted(slices.Values(e.env))...)
}

func playIgnoreTerm(environment, []string) process {
	return process{runsOn: true, ignoresTerm: true}
}

func playOnTerm(e environment, args []string) process {
	p := staying()
	after := process{ignoresTerm: true, exitCode: exitTerminated}
	var err error
	if len(args) > 2 {
		if after.lifetime, err = parseDuration(args[2]); err != nil {
			return misused("on-term: " + err.Error())
		}
	}
	if len(args) > 3 {
		if after.exitCode, err = parseCode(args[3]); err != nil {
			return misused("on-term: " + err.Error())
		}
	}
	p.onTerm = func() process {
		if err := e.files.append(args[0], args[1]+"\n"); err != nil {
			return failed(err)
		}
		return after
	}
	return p
}

func playHog(e environment, args []string) process {
	mib, err := strconv.ParseUint(args[0], 10, 20)
	if err != nil {
		return misused("hog: MIB must be a whole number")
	}
	if e.memoryLimit > 0 && int64(mib)<<20 > e.memoryLimit {
		return process{oomKilled: true, exitCode: exitKilled}
	}
	return staying(fmt.Sprintf("holding %d MiB", mib))
}

func playPause(environment, []string) process { return process{runsOn: true} }

func playWrite(e environment, args []string) process {
	if err := e.files.write(args[0], args[1]); err != nil {
		return failed(err)
	}
	return process{}
}

func playAppend(e environment, args []string) process {
	if err := e.files.append(args[0], args[1]+"\n"); err != nil {
		return failed(err)
	}
	return process{}
}

func playCat(e environment, args []string) process {
	content, err := e.files.read(args[0])
	if err != nil {
		return failed(err)
	}
	if len(content) == 0 {
		return process{}
	}
	return process{stdout: strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")}
}

func playExists(e environment, args []string) process {
	if err := e.files.stat(args[0]); err != nil {
		return failed(err)
	}
	return process{}
}

func playRemove(e environment, args []string) process {
	if err := e.files.remove(args[0]); err != nil {
		return failed(err)
	}
	return process{}
}

func playFailOnce(e environment, args []string) process {
	code, err := parseCode(args[1])
	if err != nil {
		return misused("fail-once: " + err.Error())
	}
	switch err := e.files.create(args[0]); {
	case errors.Is(err, fs.ErrExist):
		return process{}
	case err != nil:
		return failed(err)
	default:
		return process{exitCode: code}
	}
}

func playMessage(e environment, args []string) process {
	code, err := parseCode(args[2])
	if err != nil {
		return misused("message: " + err.Error())
	}
	if err := e.files.write(args[0], args[1]); err != nil {
		return failed(err)
	}
	return process{exitCode: code}
}

// playServe doesn't listen, because a sandbox's address has no network.
func playServe(e environment, args []string) process {
	address := ""
	for _, arg := range args {
		name, _, isOption := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") && address == "":
			address = arg
		case isOption && slices.Contains([]string{"start", "live", "ready"}, name):
		default:
			return misused(fmt.Sprintf("serve: unknown argument %q", arg))
		}
	}
	line := fmt.Sprintf("serving args=%q host=%s pid=1", args, e.hostname)
	if address != "" {
		line += " address=" + address
	}
	return staying(line)
}

func playGRPCHealth(_ environment, args []string) process {
	service := ""
	if len(args) == 3 {
		service = args[2]
	}
	return staying(fmt.Sprintf("serving health of %q address=%s", service, args[0]))
}

// Without a stream, playStdin and playTTY read nothing.

func playStdin(environment, []string) process {
	return process{runWith: copyStdin, termCode: exitTerminated}
}

func playTTY(_ environment, args []string) process {
	wanted := strings.Join(args, "")
	p := process{stdout: []string{"no terminal"}, runWith: watchTerminal(wanted), termCode: exitTerminated}
	if wanted != "" {
		p.exitCode = exitFailed
	}
	return p
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

func parseCode(text string) (int32, error) {
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, errors.New("the code must be a number from 0 to 255")
	}
	return int32(code), nil
}
