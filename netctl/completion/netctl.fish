# fish completion of netctl
function __netctl_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	$words[1] __complete $words[2..-1] "$current" 2>/dev/null
end
complete -c netctl -f -a '(__netctl_complete)'
