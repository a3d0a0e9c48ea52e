# fish completion of netctl
function __netctl_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	set -l candidates ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
	if test "$candidates" = :files
		__fish_complete_path (string replace -r -- '^-[^=]*=' '' "$current")
	else
		printf '%s\n' $candidates
	end
end
complete -c netctl -f -a '(__netctl_complete)'
