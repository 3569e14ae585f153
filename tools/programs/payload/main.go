// The one program in the images of the end-to-end test; the name it is called under says what it does:
//
//	pause    holds a pod's namespaces
//	show     writes its environment and the files of its /dev as one line of JSON, then stays
//	stand-in answers kubelet's probes at --health-port, in place of a program that runs outside its pod
//
// All of them stay until SIGTERM.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

type seen struct {
	Env map[string]string `json:"env"`
	Dev []string          `json:"dev"`
}

func look() (seen, error) {
	found := seen{Env: map[string]string{}, Dev: []string{}}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		found.Env[key] = value
	}
	entries, err := os.ReadDir("/dev")
	for _, entry := range entries {
		found.Dev = append(found.Dev, entry.Name())
	}
	return found, err
}

func show() error {
	found, err := look()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// standIn serves where a flag of the program that it stands for says so; one without probes needs nothing.
func standIn(arguments []string) error {
	for _, argument := range arguments {
		if port, found := strings.CutPrefix(argument, "--health-port="); found {
			ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			return http.ListenAndServe(":"+port, ok)
		}
	}
	return nil
}

func run(name string, arguments []string) error {
	switch name {
	case "pause":
		return nil
	case "show":
		return show()
	default:
		return standIn(arguments)
	}
}

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	failed := make(chan error, 1)
	go func() {
		if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
			failed <- err
		}
	}()
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case <-stop:
	}
}
